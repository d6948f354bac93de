package pgproxy

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/handshake"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay"
)

// One client too many is told so in a way that its driver shows, and cancels of
// those who are in still work.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	c := Config{Upstream: Upstream{Address: s.Addr()}, MaxConnections: 2}
	f := startFront(t, c)
	through := f.via(t, s.Database(t))
	first, second := openConn(t, through), openConn(t, through)
	const sorry = "FATAL 53300 sorry, too many clients already"
	wantError(t, "pgx", connect(t, through), sorry, "")
	out, _ := psql(t, through, "select 'x'")
	wantError(t, "psql", out, "FATAL:  sorry, too many clients already", "")
	if err := first.PgConn().CancelRequest(t.Context()); err != nil {
		t.Errorf("CancelRequest: %v", err)
	}

	c.MaxConnections = 3
	if err := f.Reload(c); err != nil {
		t.Fatal(err)
	}
	third := openConn(t, through)
	wantError(t, "pgx", connect(t, through), sorry, "")
	wantRefused(t, f, "max_connections", 3)
	for _, conn := range []*pgx.Conn{first, second, third} {
		conn.Close(t.Context())
	}
	awaitConnect(t, through)
}

// awaitConnect connects, once the proxy has noticed that others have gone.
func awaitConnect(t *testing.T, databaseURL string) {
	t.Helper()
	deadline := time.Now().Add(testLimit)
	for connect(t, databaseURL) != "connected" {
		if time.Now().After(deadline) {
			t.Fatal("no room after others have left")
		}
	}
}

// A client that does not get past its first packet does not keep room for ever,
// nor do many of them all the room there is for others.
func TestManyBeginners(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	f := startFront(t, Config{Upstream: Upstream{Address: s.Addr()}, MaxConnections: 1})
	through := f.via(t, s.Database(t))
	conns := make([]*rawConn, mostOpening(1))
	for i := range conns {
		conns[i] = dialRaw(t, f.addr)
		conns[i].send(request(codeSSL))
		conns[i].read(1)
	}
	if b := dialRaw(t, f.addr).rest(); len(b) > 0 {
		t.Errorf("one more gets %q", b)
	}
	for _, conn := range conns {
		conn.Close()
	}
	awaitConnect(t, through)
}

// A drained session is told so; one that does not end is cut when its time is over.
func TestShutdown(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	db := s.Database(t)
	t.Run("drains", func(t *testing.T) {
		t.Parallel()
		var lines lockedBuffer
		f := startFront(t, Config{Upstream: Upstream{Address: s.Addr()}, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
		through := f.via(t, db)
		idle := openConn(t, through)
		asking := dialRaw(t, f.addr)
		asking.send(startupPacket(protocol30, "user", "postgres"))
		if got := asking.await('R'); len(got) == 0 {
			t.Error("no request for a password")
		}
		silent := dialRaw(t, f.addr)
		if err := f.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		f.stop()
		asking.wantFatal("57P03", "shutting down")
		silent.wantFatal("57P03", "shutting down")
		wantState(t, idle.Ping(t.Context()), "57P01")
		if _, err := net.Dial("tcp", f.addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("still listens: %v", err)
		}
		if err := f.Serve(t.Context(), listenLocal(t)); err == nil {
			t.Error("serves again")
		}
		for _, text := range []string{"draining", "sessions=1", "drained"} {
			if !strings.Contains(lines.String(), text) {
				t.Errorf("log lacks %q:\n%s", text, &lines)
			}
		}
	})
	t.Run("cuts", func(t *testing.T) {
		t.Parallel()
		f := startFront(t, Config{Upstream: Upstream{Address: s.Addr()}})
		f.session = func(ctx context.Context, l *handshake.Login, c *relay.Config, _ <-chan struct{}) error {
			return copySession(ctx, l, c, nil) // never idle
		}
		conn := openConn(t, f.via(t, db))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := f.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		f.stop()
		if err := conn.Ping(t.Context()); err == nil {
			t.Error("the session lives on")
		}
	})
	t.Run("ends with its context", func(t *testing.T) {
		t.Parallel()
		f := startFront(t, Config{Upstream: Upstream{Address: s.Addr()}})
		conn := openConn(t, f.via(t, db))
		silent := dialRaw(t, f.addr)
		f.stop()
		if err := conn.Ping(t.Context()); err == nil {
			t.Error("the session lives on")
		}
		_ = silent.rest()
	})
	t.Run("ends with its listener", func(t *testing.T) {
		t.Parallel()
		f := startFront(t, Config{Upstream: Upstream{Address: s.Addr()}})
		ln := listenLocal(t)
		served := make(chan error, 1)
		go func() { served <- f.Serve(t.Context(), ln) }()
		ln.Close()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
}

func listenLocal(t *testing.T) net.Listener {
	t.Helper()
	ln, err := Listen(t.Context(), "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// What is logged of a refused client says why and where, and no password.
func TestLog(t *testing.T) {
	t.Parallel()
	var lines lockedBuffer
	f := startFront(t, Config{Upstream: noServer, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	wantState(t, second(ask(t, f.via(t, "postgres://me:secret@x/base"), "select 'x'")), "08001")
	f.stop()
	got := lines.String()
	for _, text := range []string{"user=me", "database=base", "cause=upstream", "connection refused", "127.0.0.1:1"} {
		if !strings.Contains(got, text) {
			t.Errorf("lacks %q: %s", text, got)
		}
	}
	if strings.Contains(got, "secret") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %s", got)
	}
}

func second[T any](_ T, err error) error { return err }

// Unix sockets on both sides; on one, nobody speaks TLS.
func TestUnixSockets(t *testing.T) {
	t.Parallel()
	there := shortDir(t)
	s := testenv.StartPostgres(t, testenv.PostgresConfig{Settings: map[string]string{"unix_socket_directories": there}})
	_, port, _ := net.SplitHostPort(s.Addr())
	db := s.Database(t)
	here := shortDir(t)
	secure := clientTLS(newAuthority(t).issue(t, "127.0.0.1"))
	secure.Required = true // of those who come by TCP
	for name, c := range map[string]struct{ upstream, listen string }{
		"folders": {there + ":" + port, here + ":6432"},
		"paths":   {filepath.Join(there, ".s.PGSQL."+port), filepath.Join(here, ".s.PGSQL.6433")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFrontAt(t, c.listen, Config{Upstream: Upstream{Address: c.upstream, TLSMode: TLSVerifyFull}, TLS: secure})
			through := f.via(t, db)
			wantAnswer(t, through, "select coalesce(inet_server_addr()::text, 'socket')", "socket")
			out, err := psql(t, through, "select 'x'")
			if out != "x" || err != nil {
				t.Errorf("psql: %s, %v", out, err)
			}
			conn := dialRaw(t, f.addr)
			conn.send(request(codeSSL))
			if got := conn.read(1); got != "N" {
				t.Errorf("TLS is offered: %q", got)
			}
			info, err := os.Stat(f.addr)
			if err != nil || info.Mode().Perm() != 0o777 {
				t.Fatalf("socket: %v, %v", info, err)
			}
			if _, err := Listen(t.Context(), c.listen, 0o700); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("listens twice: %v", err)
			}
			f.stop()
			if _, err := os.Stat(f.addr); err == nil {
				t.Error("the socket stays")
			}
		})
	}
}

// shortDir is a folder whose path leaves room for a socket's name, and in which
// servers of any account may make one.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fp") //nolint:usetesting // whose path is too long, and closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The socket of a proxy that was killed is replaced; what is no socket is not.
func TestStaleSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), ".s.PGSQL.5432")
	ln, err := Listen(t.Context(), path, 0o777)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
	ln, err = Listen(t.Context(), path, 0o777)
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), path, 0o777); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a file: %v", err)
	}
	if b, err := os.ReadFile(path); string(b) != "data" {
		t.Errorf("the file: %q, %v", b, err)
	}
}

// Connections on both sides are watched as the config says.
func TestSocketOptions(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	db := s.Database(t)
	for _, c := range []struct{ keepAlive, userTimeout, idle, user int }{
		{0, 0, 30, 120_000}, {90, 1, 90, 1000}, {-1, -1, -1, 0},
	} {
		f := startFront(t, Config{
			Upstream: Upstream{Address: s.Addr()}, KeepAlive: time.Duration(c.keepAlive) * time.Second,
			UserTimeout: time.Duration(c.userTimeout) * time.Second,
		})
		options := make(chan []int, 2)
		f.session = func(ctx context.Context, l *handshake.Login, c *relay.Config, drain <-chan struct{}) error {
			options <- socketOptions(t, l.Client)
			options <- socketOptions(t, l.Server)
			return copySession(ctx, l, c, drain)
		}
		wantAnswer(t, f.via(t, db), "select 'x'", "x")
		for range 2 {
			if got := <-options; !slices.Equal(got, []int{c.idle, c.user}) {
				t.Errorf("%+v: keepalive, user timeout = %d", c, got)
			}
		}
	}
}

func socketOptions(t *testing.T, conn net.Conn) []int {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return nil
	}
	var on, idle, user int
	_ = raw.Control(func(fd uintptr) {
		on, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE)
		idle, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
		user, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	})
	if on == 0 {
		idle = -1
	}
	return []int{idle, user}
}
