package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

const (
	// patience bounds every wait for something that must happen.
	patience = 30 * time.Second

	fastCheck = `SELECT CASE WHEN pg_catalog.pg_sequence_last_value($1::oid::regclass) = $2 THEN NULL ELSE fence.check($3) END`
)

var levels = []string{"read committed", "repeatable read", "serializable"}

// database is one in which schema fence was installed.
type database struct {
	url    string
	server *testenv.PostgresServer

	mu    sync.Mutex
	idle  []*pgx.Conn // superuser's connections that no test uses now: to log in is what costs time here
	watch *pgx.Conn   // what until polls on
}

func install(t testing.TB, s *testenv.PostgresServer) *database {
	t.Helper()
	d := &database{url: s.Database(t), server: s}
	t.Cleanup(d.close)
	if err := migrations.Up(t.Context(), d.url, migrations.Config{}); err != nil {
		t.Fatal(err)
	}
	return d
}

// each runs f for every version of Postgres, with a database of its own.
func each(t *testing.T, f func(t *testing.T, d *database)) {
	t.Helper()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		f(t, install(t, s))
	})
}

// open returns a superuser's connection.
func (d *database) open(t testing.TB) *pgx.Conn {
	t.Helper()
	d.mu.Lock()
	var conn *pgx.Conn
	if n := len(d.idle); n > 0 {
		conn, d.idle = d.idle[n-1], d.idle[:n-1]
	}
	d.mu.Unlock()
	if conn == nil {
		conn = dial(t, d.url)
	}
	t.Cleanup(func() { d.release(conn) })
	return conn
}

// release keeps a connection, as new, for another test.
func (d *database) release(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !conn.PgConn().IsBusy() && conn.DeallocateAll(ctx) == nil {
		if _, err := conn.Exec(ctx, "rollback"); err == nil {
			if _, err := conn.Exec(ctx, "discard all"); err == nil {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.idle = append(d.idle, conn)
				return
			}
		}
	}
	_ = conn.Close(ctx)
}

func (d *database) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range append(d.idle, d.watch) {
		if conn != nil {
			_ = conn.Close(context.Background())
		}
	}
}

// login makes a role and returns its name and a URL for it.
func (d *database) login(t *testing.T, attrs string) (name, url string) {
	t.Helper()
	name, password := d.server.Role(t, "LOGIN "+attrs)
	return name, testenv.URLAs(d.url, name, password)
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn := dial(t, url)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}

func dial(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["statement_timeout"] = strconv.FormatInt(patience.Milliseconds(), 10)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func exec(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s %v: %v", sql, args, describe(err))
	}
}

// fails runs a statement that must fail with the SQLSTATE.
func fails(t *testing.T, conn *pgx.Conn, state, sql string, args ...any) *pgconn.PgError {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql, args...)
	return mustBe(t, err, state, sql)
}

// mustBe ends the test unless err has the SQLSTATE.
func mustBe(t *testing.T, err error, state, what string) *pgconn.PgError {
	t.Helper()
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != state {
		t.Fatalf("%s: got %v, want SQLSTATE %s", what, describe(err), state)
	}
	return pgErr
}

func stateOf(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

func describe(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return fmt.Sprintf("%v; detail: %s; where: %s", err, pgErr.Detail, pgErr.Where)
	}
	return fmt.Sprint(err)
}

func query[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s %v: %v", sql, args, err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s %v: %v", sql, args, describe(err))
	}
	return v
}

// resource is the name of one; each test or row of a table has its own.
type resource string

// writer and reader are the tokens of number n. Each number has a holder of
// its own.
func (r resource) writer(n int64) string { return r.token(guard.Exclusive, n) }
func (r resource) reader(n int64) string { return r.token(guard.Shared, n) }

func (r resource) token(mode guard.Mode, n int64) string {
	return guard.Token{Resource: string(r), Number: n, Mode: mode, Holder: fmt.Sprintf("h%d", n), Issuer: "i"}.String()
}

// ticket is what a claim returns.
type ticket struct {
	seq   uint32
	epoch int64
}

func claim(t testing.TB, conn *pgx.Conn, token string) ticket {
	t.Helper()
	tk, err := tryClaim(t.Context(), conn, token)
	if err != nil {
		t.Fatalf("claim %s: %v", token, describe(err))
	}
	return tk
}

func tryClaim(ctx context.Context, conn *pgx.Conn, token string) (tk ticket, err error) {
	err = conn.QueryRow(ctx, "select seq, epoch from fence.claim($1)", token).Scan(&tk.seq, &tk.epoch)
	return tk, err
}

func markOf(t *testing.T, conn *pgx.Conn, r resource) guard.Mark {
	t.Helper()
	var m guard.Mark
	err := conn.QueryRow(t.Context(), "select generation, issuer, writer, holder, reader from fence.marks where resource = $1", string(r)).
		Scan(&m.Generation, &m.Issuer, &m.Writer, &m.Holder, &m.Reader)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	return m
}

// call is a statement that runs in the background.
type call struct{ done chan error }

func start(t *testing.T, conn *pgx.Conn, sql string, args ...any) *call {
	t.Helper()
	c := &call{done: make(chan error, 1)}
	go func() {
		_, err := conn.Exec(t.Context(), sql, args...)
		c.done <- err
	}()
	return c
}

// end waits for the statement and returns how it ended.
func (c *call) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.done:
		return err
	case <-time.After(patience):
		t.Fatal("a statement did not end")
		return nil
	}
}

// blocked waits until the server process of conn waits for a lock.
func (d *database) blocked(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	d.until(t, fmt.Sprintf("select coalesce(wait_event_type = 'Lock', false) from pg_stat_activity where pid = %d", conn.PgConn().PID()))
}

// gone waits until the server process of conn has ended.
func (d *database) gone(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	d.until(t, fmt.Sprintf("select not exists (select from pg_stat_activity where pid = %d)", conn.PgConn().PID()))
}

// until waits until a query returns true.
func (d *database) until(t *testing.T, sql string) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(patience); !d.look(t, sql); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, sql)
		}
	}
}

// look runs a query on a connection that the tests of a database share.
func (d *database) look(t *testing.T, sql string) (found bool) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if d.watch == nil {
		if d.watch, err = pgx.Connect(t.Context(), d.url); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.watch.QueryRow(t.Context(), sql).Scan(&found); err != nil {
		t.Fatal(err)
	}
	return found
}
