package serve

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

// TestServe runs the built program: what matters is what becomes of sessions
// when signals come.
func TestServe(t *testing.T) {
	t.Parallel()
	program := clitest.Built(t)
	for name, f := range map[string]func(*testing.T, *stand){
		"fences":            testServeFences,
		"flags":             testServeFlags,
		"sockets":           testServeSockets,
		"port in use":       testServePortInUse,
		"drain":             testServeDrain,
		"drain, cut":        testServeDrainCut,
		"drain, overdue":    testServeDrainOverdue,
		"systemd":           testServeSystemd,
		"reload":            testServeReload,
		"reload, nohup":     testServeReloadUnderNohup,
		"reload, mistakes":  testServeReloadMistakes,
		"reload, listeners": testServeReloadListeners,
		"reload, upstream":  testServeReloadUpstream,
		"reload, TLS":       testServeReloadTLS,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, newStand(t, program))
		})
	}
}

// stand is a database with a fence and a table, and a folder for configurations.
type stand struct {
	t       *testing.T
	program string
	server  *testenv.PostgresServer
	url     string // of the database itself
	dir     string
	env     []string // of the proxy, beyond this process's
}

func newStand(t *testing.T, program string) *stand {
	t.Helper()
	s := &stand{t: t, program: program, server: testenv.Postgres(t)}
	var err error
	if s.dir, err = os.MkdirTemp("", "serve"); err != nil { //nolint:usetesting // a short path, for sockets
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(s.dir) })
	s.url = s.server.Database(t)
	if err := migrations.Up(t.Context(), s.url, migrations.Config{}); err != nil {
		t.Fatal(err)
	}
	s.exec(s.connect(s.url), "CREATE TABLE orders (id int PRIMARY KEY)")
	return s
}

// file writes the configuration; SERVER in it is the server's host:port, DIR
// the folder.
func (s *stand) file(text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, "fenceproxy.yaml")
	text = strings.NewReplacer("SERVER", s.server.Addr(), "DIR", s.dir).Replace(text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *stand) connect(dsn string) *pgx.Conn {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), dsn)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (s *stand) exec(conn *pgx.Conn, sql string) {
	s.t.Helper()
	if _, err := conn.Exec(s.t.Context(), sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// sqlState is the SQLSTATE of an error, else its text.
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return fmt.Sprint(err)
}

// orders are how many rows there are.
func (s *stand) orders() (n int) {
	s.t.Helper()
	if err := s.connect(s.url).QueryRow(s.t.Context(), "SELECT count(*) FROM orders").Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// via is the URL of the database at another address, with a token of orders.
func (s *stand) via(addr string, number int) string {
	u := testenv.URLVia(s.url, addr)
	if number > 0 {
		u += "&options=" + strings.ReplaceAll(url.QueryEscape(fmt.Sprintf("-c fence.token=ft1:x:%d:h%d:test:orders", number, number)), "+", "%20")
	}
	return u
}

// serve starts serve with a configuration, and waits until it listens.
func (s *stand) serve(text string) *clitest.Proxy {
	s.t.Helper()
	p := s.start("--config", s.file(clitest.JSONLog+text))
	p.Await(`"listening"`)
	return p
}

func (s *stand) start(args ...string) *clitest.Proxy {
	s.t.Helper()
	return clitest.StartServe(s.t, s.program, s.env, args...)
}
