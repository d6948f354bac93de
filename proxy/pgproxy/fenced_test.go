package pgproxy

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

// scene is a fenced database with a table t, and a proxy in front of it.
type scene struct {
	t      *testing.T
	url    string // of the database itself
	addr   string // of the proxy
	server *Server
	// resource is what token is for; orders if "".
	resource string
}

func newScene(t *testing.T, s *testenv.PostgresServer, c Config) *scene {
	t.Helper()
	sc := &scene{t: t, url: installed(t, s)}
	sc.exec(sc.connect(sc.url), "CREATE TABLE t (id int PRIMARY KEY, v text)")
	c.Upstream.Address = s.Addr()
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	sc.addr, sc.server = serveProxy(t, c)
	return sc
}

// installed is the URL of a database with the fence.
func installed(tb testing.TB, s *testenv.PostgresServer) string {
	tb.Helper()
	dsn := s.Database(tb)
	if err := migrations.Up(tb.Context(), dsn, migrations.Config{}); err != nil {
		tb.Fatal(err)
	}
	return dsn
}

// serveProxy runs a proxy until the test ends, and returns its address.
func serveProxy(tb testing.TB, c Config) (addr string, server *Server) {
	tb.Helper()
	server, err := New(c)
	if err != nil {
		tb.Fatal(err)
	}
	ln, err := Listen(tb.Context(), "127.0.0.1:0", 0)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, ln) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			tb.Errorf("Serve: %v", err)
		}
	})
	return ln.Addr().String(), server
}

// token is an exclusive token.
func (sc *scene) token(number int64) guard.Token {
	return guard.Token{Resource: cmp.Or(sc.resource, "orders"), Number: number, Mode: guard.Exclusive, Holder: "h" + strconv.FormatInt(number, 10), Issuer: "test"}
}

// via is the URL of the database through the proxy, with tokens in its options.
func (sc *scene) via(tokens string) string {
	sc.t.Helper()
	u, err := url.Parse(testenv.URLVia(sc.url, sc.addr))
	if err != nil {
		sc.t.Fatal(err)
	}
	if tokens != "" {
		q := u.Query()
		q.Set("options", "-c fence.token="+tokens)
		u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // pgx reads it as libpq does
	}
	return u.String()
}

func (sc *scene) connect(dsn string) *pgx.Conn {
	sc.t.Helper()
	conn, err := pgx.Connect(sc.t.Context(), dsn)
	if err != nil {
		sc.t.Fatal(err)
	}
	sc.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (sc *scene) exec(conn *pgx.Conn, sql string, args ...any) {
	sc.t.Helper()
	if _, err := conn.Exec(sc.t.Context(), sql, args...); err != nil {
		sc.t.Fatalf("%s: %v", sql, err)
	}
}

// wants wants an error of that SQLSTATE.
func (sc *scene) wants(err error, state string) {
	sc.t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != state {
		sc.t.Fatalf("error is %v, want SQLSTATE %s", err, state)
	}
}

func (sc *scene) count() int {
	sc.t.Helper()
	var n int
	conn := sc.connect(sc.url)
	defer conn.Close(context.Background())
	if err := conn.QueryRow(sc.t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil {
		sc.t.Fatal(err)
	}
	return n
}

func TestFenceBasics(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		old := sc.connect(sc.via(sc.token(41).String()))
		sc.exec(old, "INSERT INTO t VALUES (1, 'a')")
		sc.exec(old, "INSERT INTO t VALUES ($1, $2)", 2, "b")
		tx, err := old.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "INSERT INTO t VALUES ($1, $2)", 3, "c"); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		tx, err = old.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "INSERT INTO t VALUES ($1, $2)", 4, "d"); err != nil {
			t.Fatal(err)
		}
		next := sc.connect(sc.via(sc.token(42).String()))
		sc.exec(next, "INSERT INTO t VALUES (10, 'x')")
		sc.wants(tx.Commit(t.Context()), "TK001")
		_, err = old.Exec(t.Context(), "INSERT INTO t VALUES (5, 'e')")
		sc.wants(err, "TK001")
		_, err = old.Exec(t.Context(), "INSERT INTO t VALUES ($1, 'e')", 5)
		sc.wants(err, "TK001")
		if n := sc.count(); n != 4 {
			t.Errorf("%d rows", n)
		}
		bare := sc.connect(sc.via(""))
		_, err = bare.Exec(t.Context(), "INSERT INTO t VALUES (6, 'e')")
		sc.wants(err, "25006")
		var n int
		if err := bare.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil || n != 4 {
			t.Errorf("%d, %v", n, err)
		}
	})
}
