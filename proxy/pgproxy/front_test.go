package pgproxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/handshake"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay"
)

// testLimit is for what takes no time on a machine that is not overloaded.
const testLimit = 30 * time.Second

// front is a proxy whose sessions are not fenced: what comes is copied. A test of
// what happens up to AuthenticationOk needs no more.
type front struct {
	*Server

	addr string // host:port, or the path of a socket
	stop func() // ends the server hard, and waits for it
}

func startFront(t *testing.T, c Config) *front {
	t.Helper()
	return startFrontAt(t, "127.0.0.1:0", c)
}

func startFrontAt(t *testing.T, listen string, c Config) *front {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.session = copySession
	ln, err := Listen(t.Context(), listen, 0o777)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return &front{Server: s, addr: ln.Addr().String(), stop: stop}
}

// copySession is a session without a fence that can be drained: it ends at once.
func copySession(ctx context.Context, l *handshake.Login, _ *relay.Config, drain <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{l.Client, l.Server}, {l.Server, l.Client}} {
		both.Go(func() {
			defer cancel()
			_, _ = io.Copy(way[1], way[0])
		})
	}
	select {
	case <-ctx.Done():
	case <-drain:
		_, _ = l.Client.Write(refusal.Shutdown().Wire())
	}
	l.Client.Close()
	l.Server.Close()
	both.Wait()
	return nil
}

// via is databaseURL through the proxy, with parameters of the connection set.
func (f *front) via(t *testing.T, databaseURL string, params ...string) string {
	t.Helper()
	if filepath.IsAbs(f.addr) {
		params = append(params, "host", filepath.Dir(f.addr), "port", filepath.Ext(f.addr)[1:])
		return withParams(t, testenv.URLVia(databaseURL, ""), params...)
	}
	return withParams(t, testenv.URLVia(databaseURL, f.addr), params...)
}

// withParams is databaseURL with parameters of the connection set, by name and
// value.
func withParams(t *testing.T, databaseURL string, params ...string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for i := 0; i < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // as libpq reads it
	return u.String()
}

// ask connects, runs a query with one result, and disconnects.
func ask(t *testing.T, databaseURL, query string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	var answer string
	err = conn.QueryRow(ctx, query).Scan(&answer)
	return answer, err
}

func wantAnswer(t *testing.T, databaseURL, query, want string) {
	t.Helper()
	if got, err := ask(t, databaseURL, query); err != nil || got != want {
		t.Errorf("%s: got %q, %v, want %q", query, got, err, want)
	}
}

func stateOf(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

func wantState(t *testing.T, err error, state string) {
	t.Helper()
	if got := stateOf(err); got != state {
		t.Errorf("got SQLSTATE %q of error %v, want %q", got, err, state)
	}
}

func TestStartupIsRelayed(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		db := s.Database(t)
		f := startFront(t, Config{Upstream: Upstream{Address: s.Addr()}})
		through := f.via(t, db, "application_name", "front", "options", `-c search_path=a,\ b --fence.token=ft1:x:1:::orders -cwork_mem=5MB`)
		wantAnswer(t, through, "show application_name", "front")
		wantAnswer(t, through, "show search_path", "a, b")
		wantAnswer(t, through, "show fence.token", "ft1:x:1:::orders")
		wantAnswer(t, through, "show work_mem", "5MB")
	})
}

// openConn is a connection that is closed when the test ends.
func openConn(t *testing.T, databaseURL string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// psql runs one statement and returns what psql printed, errors included.
func psql(t *testing.T, databaseURL, sql string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "psql", "-X", "-A", "-t", "-d", databaseURL, "-c", sql).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
