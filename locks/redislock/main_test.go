package redislock_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/lockstest"
	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

const (
	// shortTTL is for tests that lose a lease, longTTL for the others.
	shortTTL = 3 * time.Second
	longTTL  = 30 * time.Second
	issuer   = "test-redis"
)

func TestConformance(t *testing.T) { t.Parallel(); exercise(t, false) }

// TestConformancePrompt: with a client that ends a request in time.
func TestConformancePrompt(t *testing.T) { t.Parallel(); exercise(t, true) }

func exercise(t *testing.T, prompt bool) {
	t.Helper()
	open := func(tb testing.TB, redis *testenv.RedisServer) lockstest.Service {
		tb.Helper()
		s := newService(tb, redis)
		s.prompt = prompt
		return s
	}
	lockstest.Exercise(t, lockstest.Backend{
		Shared: func(tb testing.TB) lockstest.Service { tb.Helper(); return open(tb, testenv.Redis(tb)) },
		Private: func(tb testing.TB) lockstest.Service {
			tb.Helper()
			return open(tb, testenv.StartRedis(tb, testenv.RedisConfig{Persist: true}))
		},
		Link:   func(tb testing.TB, target string) lockstest.Link { return newLink(tb, target) },
		Counts: isScript,
		TTL:    shortTTL,
	})
}

// isScript tells the requests that make a lock from those that open a
// connection.
func isScript(path string) bool { return strings.HasPrefix(path, "EVAL") }

func newLink(tb testing.TB, target string) *testenv.Link {
	tb.Helper()
	return testenv.NewLink(tb, target, testenv.LinkConfig{Protocol: testenv.RESP})
}

// service is a Redis, with a prefix of its own.
type service struct {
	redis  *testenv.RedisServer
	prefix string
	client *goredis.Client
	prompt bool // lockers get clients with ContextTimeoutEnabled
}

func newService(tb testing.TB, redis *testenv.RedisServer) *service {
	tb.Helper()
	return &service{redis: redis, prefix: "test:" + locks.NewID() + ":", client: redis.Client(tb)}
}

func connect(tb testing.TB, addr string) *goredis.Client {
	tb.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	tb.Cleanup(func() { client.Close() })
	return client
}

func (s *service) Addr() string { return s.redis.Addr() }

func (s *service) Open(tb testing.TB, addr string, ttl time.Duration) locks.Locker {
	tb.Helper()
	return s.locker(tb, redislock.Config{TTL: ttl}, addr)
}

// locker returns a locker on a client of its own.
func (s *service) locker(tb testing.TB, config redislock.Config, addr string) *redislock.Locker {
	tb.Helper()
	config.Prefix = s.prefix
	client := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: s.prompt})
	tb.Cleanup(func() { client.Close() })
	return newLocker(tb, client, config)
}

func newLocker(tb testing.TB, client goredis.UniversalClient, config redislock.Config) *redislock.Locker {
	tb.Helper()
	if config.Issuer == "" {
		config.Issuer = issuer
	}
	locker, err := redislock.New(client, config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := locker.Close(); err != nil {
			tb.Logf("close: %v", err)
		}
	})
	return locker
}

// key is the name of one of a lock's keys.
func (s *service) key(resource, which string) string {
	return s.prefix + "{" + locks.Segment(resource) + "}:" + which
}

func (s *service) Entries(tb testing.TB, resource string) int {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), locktest.Patience)
	defer cancel()
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		tb.Fatal(err)
	}
	n, err := s.client.ZCount(ctx, s.key(resource, "until"), "("+strconv.FormatInt(now.UnixMilli(), 10), "+inf").Result()
	if err != nil {
		tb.Fatal(err)
	}
	return int(n)
}

func (s *service) awaitEntries(tb testing.TB, resource string, n int) {
	tb.Helper()
	locktest.Await(tb, func() bool { return s.Entries(tb, resource) == n })
}

// members are those who hold the lock of resource, and then those who wait.
func (s *service) members(tb testing.TB, resource string) []string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), locktest.Patience)
	defer cancel()
	held, err := s.client.HKeys(ctx, s.key(resource, "held")).Result()
	if err != nil {
		tb.Fatal(err)
	}
	waiting, err := s.client.ZRange(ctx, s.key(resource, "queue"), 0, -1).Result()
	if err != nil {
		tb.Fatal(err)
	}
	return append(held, waiting...)
}

func (s *service) Break(tb testing.TB, resource string, token guard.Token) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), locktest.Patience)
	defer cancel()
	var broken string
	for _, member := range s.members(tb, resource) {
		if strings.Contains(member, token.Holder) {
			broken = member // the last one, if there is no holder to look for
		}
	}
	if broken == "" {
		tb.Fatalf("no member of %v", token)
	}
	pipe := s.client.TxPipeline()
	pipe.HDel(ctx, s.key(resource, "held"), broken)
	pipe.ZRem(ctx, s.key(resource, "queue"), broken)
	pipe.ZRem(ctx, s.key(resource, "until"), broken)
	if _, err := pipe.Exec(ctx); err != nil {
		tb.Fatal(err)
	}
}

func (s *service) Restart(tb testing.TB) { tb.Helper(); s.redis.Restart(tb) }
