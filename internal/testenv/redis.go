package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/internal/testenv/shiftclock"
)

// RedisAddrEnv names a running Redis to use: host:port, without a password.
const RedisAddrEnv = "FENCE_TEST_REDIS_ADDR"

// RedisServer is one Redis process.
type RedisServer struct {
	addr string
	bin  string
	dir  string
	args []string
	proc *process
	// announced is the address by which others reach it; "" if that is addr.
	announced string

	clock *shiftclock.Clock // nil if it has none of its own
}

// RedisConfig says how a private Redis differs from the shared one.
type RedisConfig struct {
	// Persist makes it log every write to disk before it answers; without,
	// a restart forgets everything.
	Persist bool
	// Clock lets ShiftClock shift what the server takes for the time.
	Clock bool
	// ReplicaOf is the host:port of its primary, perhaps of a Link to it.
	ReplicaOf string
	// Settings are further lines of redis.conf, by name.
	Settings map[string]string
}

// Redis returns the server that the tests of this process share. Keep to a
// prefix of your own.
func Redis(tb testing.TB) *RedisServer {
	tb.Helper()
	s, err := share("redis", func() (*RedisServer, func(), error) {
		if addr := os.Getenv(RedisAddrEnv); addr != "" {
			return &RedisServer{addr: addr}, func() {}, nil
		}
		return launchRedis(RedisConfig{})
	})
	need(tb, err)
	return s
}

// StartRedis starts a Redis for this test alone, removed when the test ends.
func StartRedis(tb testing.TB, c RedisConfig) *RedisServer {
	tb.Helper()
	s, stop, err := launchRedis(c)
	need(tb, err)
	tb.Cleanup(stop)
	return s
}

// Addr is the server's host:port.
func (s *RedisServer) Addr() string { return s.addr }

// Client returns a client of the server, closed when the test ends.
func (s *RedisServer) Client(tb testing.TB) *goredis.Client {
	tb.Helper()
	client := redisClient(s.addr)
	tb.Cleanup(func() { client.Close() })
	return client
}

func redisClient(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1})
}

// Kill ends the server as a crash does.
func (s *RedisServer) Kill(tb testing.TB) { tb.Helper(); s.proc.end(syscall.SIGKILL) }

// Freeze stops the server where it is; its connections stay open.
func (s *RedisServer) Freeze(tb testing.TB) {
	tb.Helper()
	if err := s.proc.Freeze(); err != nil {
		tb.Fatalf("testenv: redis: %v", err)
	}
}

// Thaw lets a frozen server run on.
func (s *RedisServer) Thaw(tb testing.TB) {
	tb.Helper()
	if err := s.proc.Thaw(); err != nil {
		tb.Fatalf("testenv: redis: %v", err)
	}
}

// Restart kills the server if it runs, and starts it again on its data, if it
// was to keep any, and its port.
func (s *RedisServer) Restart(tb testing.TB) {
	tb.Helper()
	s.proc.end(syscall.SIGKILL)
	if err := s.start(s.pong); err != nil {
		tb.Fatalf("testenv: %v", err)
	}
}

func findRedis() (string, error) {
	if err := missingHere(); err != nil {
		return "", err
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("redis-server: %w", errMissing)
	}
	return path, nil
}

func launchRedis(c RedisConfig) (*RedisServer, func(), error) {
	bin, err := findRedis()
	if errors.Is(err, errMissing) {
		return dockerRedis(c, err)
	}
	if err != nil {
		return nil, nil, err
	}
	if c.Clock {
		return launchShifted(bin, c)
	}
	for attempt := 1; ; attempt++ {
		s, stop, err := tryRedis(bin, c.conf(), c.args(), (*RedisServer).pong)
		if err == nil || !portTaken(err) || attempt == startAttempts {
			return s, stop, err
		}
	}
}

func (c *RedisConfig) args() []string {
	args := []string{"--save", "", "--appendonly", "no"}
	if c.Persist {
		args = []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always"}
	}
	// A replica's first copy would else begin five seconds late.
	args = append(args, "--repl-diskless-sync-delay", "0")
	for name, value := range c.Settings {
		args = append(args, "--"+name, value)
	}
	return args
}

// conf is what a server is told in a file: it rewrites that when it becomes a replica,
// or no more is one, so that it is what it was when it is started again.
func (c *RedisConfig) conf() string {
	host, port, ok := strings.Cut(c.ReplicaOf, ":")
	if !ok {
		return ""
	}
	return fmt.Sprintf("replicaof %s %s\n", host, port)
}

// tryRedis starts redis-server on a port that was free a moment ago, with a file of
// configuration. What is before comes before the file.
func tryRedis(bin, conf string, args []string, ready func(*RedisServer, context.Context) error, before ...string) (*RedisServer, func(), error) {
	port, err := freePort()
	if err != nil {
		return nil, nil, err
	}
	dir, remove, err := scratch()
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(dir, "redis.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		remove()
		return nil, nil, err
	}
	s := &RedisServer{addr: loopback(port), bin: bin, dir: dir}
	s.args = slices.Concat(before, []string{path, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir}, args)
	stop := func() { s.proc.end(syscall.SIGKILL); remove() }
	if err := s.start(func(ctx context.Context) error { return ready(s, ctx) }); err != nil {
		stop()
		return nil, nil, err
	}
	return s, stop, nil
}

func (s *RedisServer) start(ready func(context.Context) error) error {
	if s.proc != nil && s.proc.box != nil {
		return s.proc.box.Restart(context.Background())
	}
	proc, err := command{path: s.bin, args: s.args, logPath: filepath.Join(s.dir, "log"), onDeath: syscall.SIGKILL}.start()
	if err != nil {
		return err
	}
	s.proc = proc
	err = proc.until(time.Minute, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("start redis: %w", err)
	}
	return nil
}

// ask runs f with a client of its own.
func (s *RedisServer) ask(f func(*goredis.Client) error) error {
	client := redisClient(s.addr)
	defer client.Close()
	return f(client)
}

// pong says whether the server answers, and has its data.
func (s *RedisServer) pong(ctx context.Context) error {
	return s.ask(func(client *goredis.Client) error { return client.Ping(ctx).Err() })
}
