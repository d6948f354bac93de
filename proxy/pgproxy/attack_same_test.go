package pgproxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func copied(text, rows string) step {
	return append(query(text), &pgproto3.CopyData{Data: []byte(rows)}, &pgproto3.CopyDone{})
}

// corners are what a current holder may do, and sees as without the proxy (I7).
var corners = [][]step{
	{series("BEGIN", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "INSERT INTO t VALUES (3, 'a')", "COMMIT")},
	{series("DEALLOCATE ALL", "INSERT INTO t VALUES (4, 'a')"), series("INSERT INTO t VALUES (5, 'a')", "DEALLOCATE ALL", "INSERT INTO t VALUES (6, 'a')")},
	{query("BEGIN"), query("SELECT 1/0"), query("COMMIT AND CHAIN"), query("ROLLBACK")},
	{named("b", "BEGIN"), named("s", "SHOW port"), query("PREPARE k AS SELECT 1"), query("DEALLOCATE k"), executed("s"), executed("b"), query("ROLLBACK")},
	{append(append(call(89), call(89)...), query("SELECT 1")...), call(1)},
	{append(append(append(query(""), query(";;")...), query("/* x */")...), series("")...), query("BEGIN"), query(";"), query("COMMIT")},
	{named(longName+"1", "BEGIN"), named("ä", "INSERT INTO t VALUES (21, 'a')"), executed(longName), executed("ä"), query("ROLLBACK"), executed("ä")},
	{named("e", "INSERT INTO t VALUES (7, 'a')"), named("s", "SHOW port"), query("EXECUTE e"), series("EXECUTE e"), query("EXECUTE s")},
	{append(append(copied("COPY t FROM STDIN", "8\ta\n"), query("SELECT 1")...), &pgproto3.Sync{})},
	{append(append(copied("COPY t FROM STDIN; COPY t FROM STDIN", "9\ta\n"), &pgproto3.CopyData{Data: []byte("10\ta\n")}, &pgproto3.CopyDone{}), query("SELECT 1")...)},
	{append(copied("COPY t FROM STDIN", "x\ta\n"), query("SELECT 1")...), append(copied("COPY nowhere FROM STDIN", "x\ta\n"), query("SELECT 1")...)},
	{query("BEGIN"), query("SAVEPOINT s"), query("SELECT 1/0"), series("ROLLBACK TO s", "INSERT INTO t VALUES (11, 'a')", "COMMIT")},
	{query("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"), query("INSERT INTO t VALUES (12, 'a')"), query("BEGIN READ WRITE"), query("INSERT INTO t VALUES (12, 'a')"), query("COMMIT")},
	{query("BEGIN; INSERT INTO t VALUES (13, 'a'); COMMIT; BEGIN"), query("ROLLBACK")},
	{query("CREATE ROLE attacker NOLOGIN; GRANT ALL ON t TO attacker"), query("SET ROLE attacker"), query("INSERT INTO t VALUES (14, 'a')"), query("RESET ROLE"), query("DROP OWNED BY attacker; DROP ROLE attacker")},
	{
		query(`CREATE SCHEMA evil; CREATE FUNCTION evil.eq(text, text) RETURNS bool LANGUAGE sql AS 'SELECT true';
			CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq); CREATE DOMAIN evil.text AS int`),
		query("SET search_path = evil, pg_catalog, public"), query("INSERT INTO t VALUES (15, 'a')"), query("RESET search_path"), query("DROP SCHEMA evil CASCADE"),
	},
	{query("DO $$ BEGIN RAISE 'x'; END $$"), series("DO $$ BEGIN RAISE 'x'; END $$"), query("DO $$ BEGIN RAISE NOTICE 'x'; END $$; SELECT 1")},
	// Words that are not what they look like.
	{query("CREATE TABLE subscription (id int)"), series("ALTER TABLE subscription ADD COLUMN concurrent int"), query("DROP TABLE subscription")},
	{query("SET search_path = geofence, public; INSERT INTO t VALUES (22, 'Thu&Fri')"), query("SET default_transaction_read_only = off; SELECT 1; RESET search_path")},
	{
		query("BEGIN"), append(unsynced("SET LOCAL work_mem = '1MB'", "INSERT INTO t VALUES (16, 'a')"), query(`INSERT INTO t VALUES (17, 'C:\ä'), (18, E'\'')`)...), query("COMMIT"),
		append(append(series("INSERT INTO t VALUES (19, 'a')"), query(`INSERT INTO t VALUES (20, 'C:\')`)...), query("SELECT 'ä'")...),
		append(append(series("SET standard_conforming_strings = off"), query(`SELECT '\'';SELECT 1;--'`)...), query("SET NAMES 'LATIN1'; SELECT E'\xe4\\''")...),
	},
	{query("SELECT set_config('a.b', 'x', false)"), query("SELECT set_config('a.b', 'x', false); SELECT 1"), query("SHOW a.b")},
}

// readers are what anybody may do.
var readers = [][]step{
	{query("SELECT 1; SELECT 2"), query("SELECT 1; SELECT 1/0"), query("SELECT 1/0"), query("TABLE t"), query("SHOW port; SELECT 1")},
	{query("COPY (SELECT 1) TO STDOUT"), query("COPY (SELECT 1) TO STDOUT; SELECT 1"), query("EXPLAIN (COSTS off) SELECT 1"), call(89), call(1)},
	{series("SELECT 1", "SELECT 2"), series("SELECT 1", "SELECT 1/0", "SELECT 2"), series("SELECT 1/0"), append(append(series("SELECT 1"), series("SELECT 2")...), query("SELECT 3")...)},
	{query("PREPARE k AS SELECT 1"), query("EXECUTE k"), query("DEALLOCATE k"), query("BEGIN"), query("SAVEPOINT s"), query("SELECT 1/0"), query("ROLLBACK TO s"), query("SELECT 2"), query("COMMIT")},
	{query("BEGIN; SELECT 1"), query("SELECT 2; SELECT 3"), query("COMMIT"), query("ANALYZE t"), query("SELECT now() = statement_timestamp()")},
	{
		{
			&pgproto3.Parse{Query: "SELECT generate_series(1, 3)"}, &pgproto3.Bind{DestinationPortal: "g"}, &pgproto3.Execute{Portal: "g", MaxRows: 1},
			&pgproto3.Execute{Portal: "g", MaxRows: 1}, &pgproto3.Execute{Portal: "g"}, &pgproto3.Sync{},
		}, series("SELECT 1"),
	},
	{query("DO $$ BEGIN RAISE 'x'; END $$"), series("DO $$ BEGIN RAISE 'x'; END $$")},
}

// same plays steps through a proxy and without, and wants the same.
func (sc *scene) same(through, token string, scripts [][]step) {
	sc.t.Helper()
	admin := sc.admin()
	play := func(dsn string, steps []step) string {
		c := sc.raw(dsn)
		defer c.conn.Close()
		said := c.play(sc.t, steps...)
		left := sc.run(admin, "SELECT string_agg(id::text, ',' ORDER BY id) FROM t")
		sc.run(admin, "DELETE FROM t")
		return said + " " + left
	}
	via := *sc
	via.addr = through
	for _, steps := range scripts {
		want := play(sc.url, steps)
		if got := play(via.via(token), steps); got != want {
			sc.t.Errorf("%q with token %q\n through: %s\n  direct: %s", steps[0][0], token, got, want)
		}
	}
}

// TestCornersSame: for every kind of session, and through two proxies in a row.
func TestCornersSame(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		chain, _ := serveProxy(t, Config{Upstream: Upstream{Address: sc.addr}})
		one, other := sc.token(1), sc.token(1)
		other.Resource = "stock"
		list := one.String() + "," + other.String()
		for _, token := range []string{one.String(), list} {
			sc.same(sc.addr, token, corners)
			sc.same(sc.addr, token, readers)
			sc.same(chain, token, corners)
		}
		sc.same(sc.addr, "", readers)
		sc.same(chain, "", readers)
		sc.claim(shared(3))
		sc.same(sc.addr, shared(3).String(), readers)
	})
}

// TestWaitingCheck: what may happen to a client while its check waits for a claim
// happens as it does to any statement that waits.
func TestWaitingCheck(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		for name, c := range map[string]struct {
			want, set string
			meanwhile func(admin, waiting *pgx.Conn) error
		}{
			"lock_timeout":      {"55P03", "SET lock_timeout = '50ms'", nil},
			"statement_timeout": {"57014", "SET statement_timeout = '50ms'", nil},
			"cancel":            {"57014", "", func(_, w *pgx.Conn) error { return w.PgConn().CancelRequest(t.Context()) }},
			"terminate": {"57P01", "", func(admin, w *pgx.Conn) error {
				_, err := admin.Exec(t.Context(), "SELECT pg_terminate_backend($1)", w.PgConn().PID())
				return err
			}},
		} {
			for _, block := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v", name, block), func(t *testing.T) {
					sc := *sc
					sc.t, sc.resource = t, strings.ReplaceAll(t.Name(), "/", ".")
					sc.waitingCheck(block, c.want, c.set, c.meanwhile)
				})
			}
		}
		if n := sc.count(); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

func (sc *scene) waitingCheck(block bool, want, set string, meanwhile func(admin, waiting *pgx.Conn) error) {
	t := sc.t
	conn, claim, admin := sc.connect(sc.via(sc.token(1).String())), sc.connect(sc.url), sc.connect(sc.url)
	sql := "INSERT INTO t VALUES (1, 'a')"
	if block {
		sc.exec(conn, "BEGIN")
		sc.exec(conn, sql)
		sql = "COMMIT"
	}
	sc.exec(claim, "BEGIN")
	sc.exec(claim, "SELECT fence.claim($1)", sc.token(2).String())
	if set != "" {
		sc.exec(conn, set)
	}
	done := make(chan error, 1)
	go func() {
		if meanwhile == nil {
			done <- nil
			return
		}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for range tick.C { // until it waits
			var waits bool
			err := admin.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)", conn.PgConn().PID()).Scan(&waits)
			if err != nil || waits {
				done <- meanwhile(admin, conn)
				return
			}
		}
	}()
	_, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	sc.wants(err, want)
	if err := <-done; err != nil {
		t.Error(err)
	}
	sc.exec(claim, "ROLLBACK")
	if want == "57P01" {
		return
	}
	if at := conn.PgConn().TxStatus(); at != 'I' {
		t.Errorf("status is %c", at)
	}
	sc.exec(conn, "SET lock_timeout = 0; SET statement_timeout = 0", pgx.QueryExecModeSimpleProtocol)
	sc.exec(conn, "INSERT INTO t VALUES (1, 'a')")
	sc.exec(conn, "DELETE FROM t")
}
