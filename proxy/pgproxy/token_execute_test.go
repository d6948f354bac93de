package pgproxy

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// setter prepares by SQL what sets the token.
const setter = "PREPARE c AS SELECT set_config('fence.token', $1, false)"

// TestStaleTokenByExecute: under allow, a stale token that is set by what SQL's EXECUTE
// runs lets nothing be written (I1, I5).
func TestStaleTokenByExecute(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{Untokened: Allow})
		sc.claim(sc.token(2))
		stale, insert := "('"+sc.token(1).String()+"')", "INSERT INTO t VALUES (1, 'a')"
		local := "PREPARE c AS SELECT set_config('fence.token', $1, true)"
		for _, steps := range [][]step{
			{query(setter), query("EXECUTE c" + stale), query(insert)},
			{query(setter), series("EXECUTE c"+stale, insert)},
			{query(setter), append(series("EXECUTE c"+stale), query(insert)...)},
			{query(setter), query("EXECUTE c" + stale + "; " + insert)},
			{query(setter + "; EXECUTE c" + stale + "; " + insert)},
			{series(setter, "EXECUTE c"+stale, insert)},
			{query(local), query("BEGIN"), query(insert), query("EXECUTE c" + stale), query("COMMIT")},
			{query("BEGIN"), series(local, insert, "EXECUTE c"+stale, "COMMIT")},
			{query(setter), query("EXPLAIN ANALYZE EXECUTE c" + stale), query(insert)},
			{query(setter), query("CREATE TEMPORARY TABLE x AS EXECUTE c" + stale), query(insert)},
			{query("DO $$ BEGIN EXECUTE $e$" + setter + "$e$; END $$"), query("EXECUTE c" + stale), query(insert)},
			{query(setter), named("run", "EXECUTE c"+stale), executed("run"), query(insert)},
			{query("BEGIN"), query("DECLARE c CURSOR FOR SELECT set_config('fence.token', '" + sc.token(1).String() + "', false)"), query(insert), query("FETCH c"), query("COMMIT")},
		} {
			c := sc.raw(sc.via(""))
			got := c.play(t, steps...)
			c.conn.Close()
			if n := sc.count(); n != 0 {
				t.Errorf("%q: %d rows: %s", steps[0][0], n, got)
				sc.exec(sc.connect(sc.url), "DELETE FROM t")
			}
		}
		// In these it cannot be set.
		for want, steps := range map[string][]step{
			"PREPARE Z:I / E:TK004 Z:I /": {query(setter), query("DO $$ BEGIN EXECUTE $e$EXECUTE c" + stale + "$e$; END $$")},
			"Z:I / E:TK007 Z:I /":         {named("c", "SELECT set_config('fence.token', $1, false)"), query("EXECUTE c" + stale)},
		} {
			c := sc.raw(sc.via(""))
			if got := c.play(t, steps...); got != want {
				t.Errorf("%q: %s", steps[0][0], got)
			}
			c.conn.Close()
		}
	})
}

// A session under allow that prepares what may change the token, and runs what does
// not, does everything.
func TestExecuteUnfenced(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{Untokened: Allow})
		sc.same(sc.addr, "", [][]step{
			{query(setter), query("PREPARE i AS INSERT INTO t VALUES ($1, 'a')"), query("EXECUTE i(1)"), series("EXECUTE i(2)", "EXECUTE i(3)"), query("BEGIN"), query("EXECUTE i(4)"), query("COMMIT")},
			{query(setter), query("EXECUTE c('')"), query("INSERT INTO t VALUES (1, 'a')")},
			{query(setter), query("PREPARE v AS SELECT 1"), query("EXPLAIN (COSTS off) EXECUTE v"), query("CREATE TEMPORARY TABLE x AS EXECUTE v"), query("TABLE x"), query("DEALLOCATE ALL")},
		})
		c := sc.connect(sc.via(""))
		sc.exec(c, setter)
		for i := range 2 {
			sc.exec(c, "EXECUTE c('"+sc.token(int64(i+1)).String()+"')")
			sc.exec(c, "INSERT INTO t VALUES ($1, 'a')", i)
		}
		if n := sc.count(); n != 2 {
			t.Errorf("%d rows under tokens that are current", n)
		}
	})
}
