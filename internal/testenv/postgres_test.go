package testenv_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func query[T any](t *testing.T, conn *pgx.Conn, sql string) T {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestEachPostgres(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		conn := connect(t, s.Database(t))
		if got := query[string](t, conn, "show server_version_num"); !strings.HasPrefix(got, strconv.Itoa(s.Major())) {
			t.Errorf("version %s, want major %d", got, s.Major())
		}
		if got := query[string](t, conn, "show max_prepared_transactions"); got != "64" {
			t.Errorf("max_prepared_transactions = %s", got)
		}
		if got := query[string](t, conn, "show fsync"); got != "off" {
			t.Errorf("fsync = %s", got)
		}
	})
}

func TestDatabasesAreSeparate(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	one, two := connect(t, s.Database(t)), connect(t, s.Database(t))
	exec(t, one, "create table t (n int)")
	if query[bool](t, two, "select to_regclass('t') is not null") {
		t.Error("a table made in one database is in the other")
	}
}

func TestDatabaseIsDropped(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	watcher := connect(t, s.Database(t))
	var name, role string
	t.Run("test with leftovers", func(t *testing.T) {
		url := s.Database(t)
		// Made after the database in which it owns something: its cleanup runs first.
		var password string
		role, password = s.Role(t, "LOGIN")
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		name = query[string](t, conn, "select current_database()")
		exec(t, conn, "grant create on schema public to "+role)
		own := connect(t, testenv.URLAs(url, role, password))
		exec(t, own, "create table t (n int)")
		exec(t, conn, "begin")
		exec(t, conn, "insert into t values (1)")
		exec(t, conn, "prepare transaction 'left behind'")
		// conn stays open.
	})
	if query[bool](t, watcher, "select exists (select from pg_database where datname = '"+name+"')") {
		t.Errorf("database %s is still there", name)
	}
	if query[bool](t, watcher, "select exists (select from pg_roles where rolname = '"+role+"')") {
		t.Errorf("role %s is still there", role)
	}
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	s := testenv.StartPostgres(t, testenv.PostgresConfig{Fsync: true, Settings: map[string]string{"work_mem": "5MB"}})
	url := s.Database(t)
	conn := connect(t, url)
	if got := query[string](t, conn, "show work_mem") + query[string](t, conn, "show fsync"); got != "5MBon" {
		t.Errorf("work_mem and fsync = %s", got)
	}
	exec(t, conn, "create table t (n int)")
	exec(t, conn, "insert into t values (1)")
	s.Kill(t)
	if _, err := conn.Exec(t.Context(), "select 1"); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart(t)
	if got := query[int](t, connect(t, url), "select n from t"); got != 1 {
		t.Errorf("n = %d after a crash", got)
	}
	s.Restart(t) // while it runs
	if got := query[int](t, connect(t, url), "select n from t"); got != 1 {
		t.Errorf("n = %d after a restart", got)
	}
}

// simple asks by the simple protocol, which every pooler mode can take.
func simple(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return string(results[0].Rows[0][0])
}

func TestFrozenPostgres(t *testing.T) {
	t.Parallel()
	s := testenv.StartPostgres(t, testenv.PostgresConfig{})
	conn := connect(t, s.Database(t))
	s.Freeze(t)
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), "select 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a frozen server answers: %v", err)
		answered <- err
	case <-time.After(200 * time.Millisecond):
	}
	s.Thaw(t)
	if err := <-answered; err != nil {
		t.Errorf("after it runs on: %v", err)
	}
	s.Freeze(t)
	s.Kill(t) // as it is
	s.Restart(t)
}
