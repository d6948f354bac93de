package pgstore

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// env is a database with the schema fence and a table t of the application,
// seen as an ordinary role that may claim.
type env struct {
	server *testenv.PostgresServer
	admin  string // URL as superuser
	url    string // URL as the role
	pool   *pgxpool.Pool
	store  *Store
}

const tableSQL = `create table t (id int primary key, n int not null default 0, by bigint not null default 0)`

func newEnv(t testing.TB, s *testenv.PostgresServer, c Config) *env {
	t.Helper()
	e := &env{server: s, admin: s.Database(t)}
	role, password := s.Role(t, "LOGIN")
	e.url = testenv.URLAs(e.admin, role, password)
	if err := migrations.Up(t.Context(), e.admin, migrations.Config{Grant: []string{role}}); err != nil {
		t.Fatal(err)
	}
	e.asAdmin(t, "grant all on schema public to "+role)
	e.pool = openPool(t, e.url, nil)
	mustExec(t, e.pool, tableSQL)
	mustExec(t, e.pool, "insert into t select generate_series(1, 100)")
	e.store = newStore(t, e.pool, c)
	return e
}

func (e *env) asAdmin(t testing.TB, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), e.admin)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func openPool(t testing.TB, url string, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 8
	if change != nil {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func newStore(t testing.TB, pool *pgxpool.Pool, c Config) *Store {
	t.Helper()
	s, err := New(pool, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustExec(t testing.TB, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func query[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	rows, _ := pool.Query(t.Context(), sql, args...)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func writer(number int64) guard.Token {
	return guard.Token{Resource: "orders", Number: number, Mode: guard.Exclusive, Holder: fmt.Sprint("h", number), Issuer: "i"}
}

func reader(number int64) guard.Token {
	token := writer(number)
	token.Mode = guard.Shared
	return token
}

func mustClaim(t testing.TB, s *Store, token guard.Token) {
	t.Helper()
	if err := s.Claim(t.Context(), token); err != nil {
		t.Fatalf("claim %s: %v", token, err)
	}
}

// update is a callback that adds 1 to row id of t.
func update(id int) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "update t set n = n + 1 where id = $1", id)
		return err
	}
}

// eventually polls until f is true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}
