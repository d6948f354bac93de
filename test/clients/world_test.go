package clients_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy"
)

// world is a fenced database with what testdata/setup.sql makes, and how a
// client gets there.
type world struct {
	url   string // of the database itself
	addr  string // of the proxy, or of the server
	token string // of the client; "" is none
	admin *pgx.Conn
}

// way is how a client gets to its database.
type way uint8

const (
	direct way = iota
	// current: through the proxy, with the newest token.
	current
	// overtaken: the same, until the client says "claim?".
	overtaken
	// stale: through the proxy, with a token that is older than the newest claim.
	stale
	// untokened: through the proxy, without a token.
	untokened
)

func token(number int64) string {
	return guard.Token{Resource: "orders", Number: number, Mode: guard.Exclusive, Holder: "holder", Issuer: "test"}.String()
}

func newWorld(t *testing.T, s *testenv.PostgresServer, by way) *world {
	t.Helper()
	w := &world{url: s.Database(t), addr: s.Addr()}
	if err := migrations.Up(t.Context(), w.url, migrations.Config{}); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), w.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	w.admin = conn
	w.exec(t, read(t, "testdata/setup.sql"))
	if by == direct {
		return w
	}
	w.addr = serve(t, s.Addr())
	if by != untokened {
		w.token = token(41)
	}
	if by == stale {
		w.claim(t)
	}
	return w
}

// serve is a proxy in front of a server, and returns its address.
func serve(t *testing.T, upstream string) string {
	t.Helper()
	proxy, err := pgproxy.New(pgproxy.Config{
		Upstream: pgproxy.Upstream{Address: upstream},
		Logger:   slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := pgproxy.Listen(t.Context(), "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(ctx, ln) }()
	t.Cleanup(sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}))
	return ln.Addr().String()
}

func (w *world) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := w.admin.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// claim makes a token the newest that is newer than the client's.
func (w *world) claim(t *testing.T) {
	t.Helper()
	if _, err := w.admin.Exec(t.Context(), "SELECT fence.claim($1)", token(42)); err != nil {
		t.Fatalf("claim: %v", err)
	}
}

// state is everything that a client can have written.
func (w *world) state(t *testing.T) string {
	t.Helper()
	var state string
	if err := w.admin.QueryRow(t.Context(), read(t, "testdata/state.sql")).Scan(&state); err != nil {
		t.Fatalf("state: %v", err)
	}
	if !regexp.MustCompile(`(?m)^rows of accounts [0-9a-f]{32}$`).MatchString(state) {
		t.Fatalf("this does not tell what is in accounts:\n%s", state)
	}
	return state
}

// env is the environment of a client, as `fenceproxy exec` sets it.
func (w *world) env(t *testing.T) []string {
	t.Helper()
	u, err := url.Parse(testenv.URLVia(w.url, w.addr))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	env := []string{
		"PGHOST=" + u.Hostname(), "PGPORT=" + u.Port(), "PGUSER=" + u.User.Username(), "PGPASSWORD=" + password,
		"PGDATABASE=" + strings.TrimPrefix(u.Path, "/"), "PGSSLMODE=disable", "LC_ALL=C.UTF-8", "TZ=UTC",
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PYTHONDONTWRITEBYTECODE=1",
	}
	if w.token != "" {
		env = append(env, "PGOPTIONS=-c fence.token="+w.token)
	}
	return env
}

// dsn is the URL that a client in this program connects to.
func (w *world) dsn(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(testenv.URLVia(w.url, w.addr))
	if err != nil {
		t.Fatal(err)
	}
	if w.token != "" {
		q := u.Query()
		q.Set("options", "-c fence.token="+w.token)
		u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // pgx reads it as libpq does
	}
	return u.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (b way) String() string {
	if int(b) < len(ways) {
		return ways[b]
	}
	return fmt.Sprint(uint8(b))
}

var ways = [...]string{"direct", "current", "overtaken", "stale", "untokened"}
