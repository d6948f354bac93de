package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv/folder"
)

// ZooKeeperAddrEnv names a running ZooKeeper to use: host:port.
const ZooKeeperAddrEnv = "FENCE_TEST_ZOOKEEPER_ADDR"

// zooKeeperJar is where Debian has ZooKeeper. Its manifest names the rest.
const zooKeeperJar = "/usr/share/java/zookeeper.jar"

// ZooKeeperServer is one ZooKeeper, which runs alone or as a member of an
// ensemble.
type ZooKeeperServer struct {
	addr string
	dir  string
	java string
	main string   // the class to run
	args []string // of the JVM
	proc *process
}

// ZooKeeperConfig says how a private ZooKeeper differs from the shared one.
type ZooKeeperConfig struct {
	// Sync makes it wait for the disk before it answers, as in production.
	Sync bool
	// Settings are further lines of zoo.cfg, by name.
	Settings map[string]string
	// Flags are further ones of the JVM.
	Flags []string
}

// ZooKeeper returns the server that the tests of this process share. Sessions
// of 1 to 60 s can be had. Keep to a path of your own.
func ZooKeeper(tb testing.TB) *ZooKeeperServer {
	tb.Helper()
	s, err := share("zookeeper", func() (*ZooKeeperServer, func(), error) {
		if addr := os.Getenv(ZooKeeperAddrEnv); addr != "" {
			return &ZooKeeperServer{addr: addr}, func() {}, nil
		}
		return launchZooKeeper(ZooKeeperConfig{})
	})
	need(tb, err)
	return s
}

// StartZooKeeper starts a ZooKeeper for this test alone, removed when the test
// ends.
func StartZooKeeper(tb testing.TB, c ZooKeeperConfig) *ZooKeeperServer {
	tb.Helper()
	s, stop, err := launchZooKeeper(c)
	need(tb, err)
	tb.Cleanup(stop)
	return s
}

// Addr is the server's host:port.
func (s *ZooKeeperServer) Addr() string { return s.addr }

// Kill ends the server as a crash does.
func (s *ZooKeeperServer) Kill(tb testing.TB) {
	tb.Helper()
	s.proc.end()
}

// Freeze stops the server where it is; its connections stay open.
func (s *ZooKeeperServer) Freeze(tb testing.TB) { tb.Helper(); s.must(tb, s.proc.Freeze()) }

// Thaw lets a frozen server run on.
func (s *ZooKeeperServer) Thaw(tb testing.TB) { tb.Helper(); s.must(tb, s.proc.Thaw()) }

// Restart kills the server if it runs, and starts it again on its data and its
// port. Sessions go on.
func (s *ZooKeeperServer) Restart(tb testing.TB) {
	tb.Helper()
	s.proc.end()
	s.must(tb, s.start())
}

// Forget kills the server, and removes its data.
func (s *ZooKeeperServer) Forget(tb testing.TB) {
	tb.Helper()
	if s.proc.box != nil {
		s.must(tb, s.proc.box.Lose(context.Background()))
		return
	}
	s.proc.end()
	s.must(tb, os.RemoveAll(s.data()))
}

func (s *ZooKeeperServer) must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("testenv: ZooKeeper at %s: %v", s.addr, err)
	}
}

func (s *ZooKeeperServer) data() string { return filepath.Join(s.dir, "data") }

func launchZooKeeper(c ZooKeeperConfig) (*ZooKeeperServer, func(), error) {
	java, err := findJava()
	if errors.Is(err, localserver.ErrMissing) {
		return dockerZooKeeper(c, err)
	}
	if err != nil {
		return nil, nil, err
	}
	dir, remove, err := folder.New(nil)
	if err != nil {
		return nil, nil, err
	}
	s := &ZooKeeperServer{dir: dir, java: java, main: "ZooKeeperServerMain", args: c.Flags}
	err = localserver.OnFreePorts(1, func(ports []int) error {
		s.addr = localserver.Loopback(ports[0])
		if err := os.WriteFile(s.config(), []byte(c.text(ports[0], s.data())), 0o600); err != nil {
			return err
		}
		return s.start()
	})
	stop := func() { s.proc.end(); remove() }
	if err != nil {
		stop()
		return nil, nil, err
	}
	return s, stop, nil
}

func findJava() (string, error) {
	if err := missingHere(); err != nil {
		return "", err
	}
	if _, err := os.Stat(zooKeeperJar); err != nil {
		return "", fmt.Errorf("ZooKeeper (%s) is %w", zooKeeperJar, localserver.ErrMissing)
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf("java, for ZooKeeper, is %w", localserver.ErrMissing)
	}
	return java, nil
}

func (s *ZooKeeperServer) config() string { return filepath.Join(s.dir, "zoo.cfg") }

// text is zoo.cfg. The limits of a session follow from the tick; without
// admin.enableServer=false it would listen on port 8080 of all addresses.
func (c ZooKeeperConfig) text(port int, data string) string {
	settings := map[string]string{
		"dataDir": data, "clientPort": strconv.Itoa(port), "clientPortAddress": "127.0.0.1",
		"tickTime": "500", "maxSessionTimeout": "60000", "maxClientCnxns": "0",
		"admin.enableServer": "false", "4lw.commands.whitelist": "srvr,mntr", "extendedTypesEnabled": "true",
	}
	if !c.Sync {
		settings["forceSync"] = "no"
	}
	maps.Copy(settings, c.Settings)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s=%s\n", name, settings[name])
	}
	return text.String()
}

func (s *ZooKeeperServer) start() error {
	if s.proc != nil && s.proc.box != nil {
		return s.proc.box.Restart(context.Background())
	}
	if err := s.run(); err != nil {
		return err
	}
	return s.await()
}

// run runs Java itself: Debian's script writes to /var/log and turns JMX on.
func (s *ZooKeeperServer) run() error {
	args := append([]string{"-Xmx256m", "-XX:+UseSerialGC"}, s.args...)
	args = append(args, "-cp", zooKeeperJar, "org.apache.zookeeper.server."+s.main, s.config())
	cmd := exec.Command(s.java, args...)
	proc, err := localserver.StartLogged(cmd, logIn(s.dir), syscall.SIGKILL)
	if err == nil {
		s.proc = &process{Process: proc}
	}
	return err
}

// await returns when the server serves clients.
func (s *ZooKeeperServer) await() error {
	err := s.proc.AwaitReady(context.Background(), time.Minute, func(ctx context.Context) error { return serves(ctx, s.addr) })
	if err != nil {
		return fmt.Errorf("start ZooKeeper: %w", err)
	}
	return nil
}

// Packets is how many packets the server got from clients so far, pings
// included.
func (s *ZooKeeperServer) Packets(tb testing.TB) int {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answer, err := fourLetters(ctx, s.addr, "mntr")
	s.must(tb, err)
	for line := range strings.Lines(answer) {
		if text, ok := strings.CutPrefix(line, "zk_packets_received\t"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			s.must(tb, err)
			return n
		}
	}
	tb.Fatalf("testenv: ZooKeeper at %s: mntr: %q", s.addr, answer)
	return 0
}

// serves asks a server whether it serves. (To "ruok" it says "imok" before it
// does.)
func serves(ctx context.Context, addr string) error {
	answer, err := fourLetters(ctx, addr, "srvr")
	if err == nil && !strings.HasPrefix(answer, "Zookeeper version") {
		err = fmt.Errorf("srvr: %q", answer)
	}
	return err
}

// fourLetters sends one of ZooKeeper's commands for administrators.
func fourLetters(ctx context.Context, addr, command string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}
