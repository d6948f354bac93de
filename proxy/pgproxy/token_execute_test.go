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

// A token that what SQL's EXECUTE runs has set is claimed before the next statement.
func TestTokenByExecuteIsClaimed(t *testing.T) {
	t.Parallel()
	sc := newScene(t, testenv.PostgresVersion(t, 18), Config{})
	for i, first := range []string{"", sc.token(6).String()} {
		c := sc.connect(sc.via(first))
		sc.exec(c, setter)
		sc.exec(c, "EXECUTE c('"+sc.token(int64(5+2*i)).String()+"')")
		for j := range 3 {
			sc.exec(c, "INSERT INTO t VALUES ($1, 'a')", 10*i+j)
		}
	}
}

// A token that a function has set, which is not noticed, is claimed at the latest
// behind the one statement that is refused for it (I3).
func TestTokenByFunctionIsClaimed(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		sc.exec(sc.connect(sc.url), "CREATE FUNCTION use(t text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('fence.token', t, false); END $$")
		const none, older = false, true
		for i, row := range []struct {
			first bool // the session has an older token
			steps []step
			want  string
		}{
			{none, []step{query("SELECT 1"), query("INSERT INTO t VALUES (9, 'a')")}, "E:TK004 Z:I / INSERT 0 1 Z:I /"},
			{none, []step{series("SELECT 1"), series("INSERT INTO t VALUES (10, 'a')")}, "E:TK004 Z:I / INSERT 0 1 Z:I /"},
			{none, []step{query("BEGIN"), query("SELECT 1"), query("ROLLBACK"), query("INSERT INTO t VALUES (11, 'a')")}, "BEGIN Z:T / E:TK004 Z:E / ROLLBACK Z:I / INSERT 0 1 Z:I /"},
			{none, []step{call(89), query("INSERT INTO t VALUES (12, 'a')")}, "E:TK004 Z:I / INSERT 0 1 Z:I /"},
			{older, []step{query("INSERT INTO t VALUES (1, 'a')"), query("INSERT INTO t VALUES (2, 'a')")}, "E:TK004 Z:I / INSERT 0 1 Z:I /"},
			{older, []step{series("INSERT INTO t VALUES (3, 'a')"), series("INSERT INTO t VALUES (4, 'a')")}, "E:TK004 Z:I / INSERT 0 1 Z:I /"},
			{older, []step{query("BEGIN"), query("INSERT INTO t VALUES (5, 'a')"), query("COMMIT"), query("INSERT INTO t VALUES (6, 'a')")}, "BEGIN Z:T / INSERT 0 1 Z:T / E:TK004 Z:I / INSERT 0 1 Z:I /"},
			{older, []step{query("DO $$ BEGIN END $$"), query("DO $$ BEGIN END $$"), query("INSERT INTO t VALUES (7, 'a')")}, "E:TK004 Z:I / DO Z:I / INSERT 0 1 Z:I /"},
			{older, []step{call(89), call(89), query("INSERT INTO t VALUES (8, 'a')")}, "E:TK004 Z:I / Z:I / INSERT 0 1 Z:I /"},
		} {
			first, token := "", sc.token(int64(2*i+2)).String()
			if row.first {
				first = sc.token(int64(2*i + 1)).String()
			}
			c := sc.raw(sc.via(first))
			got := c.play(t, query("SELECT use('"+token+"')"))
			if s.Major() < 16 && !row.first {
				if got != "E:TK004 Z:I /" { // it runs in a block of the proxy's
					t.Error(got)
				}
				continue
			}
			if got != "SELECT 1 Z:I /" {
				t.Fatal(got)
			}
			if got := c.play(t, row.steps...); got != row.want {
				t.Errorf("%q: %s, want %s", row.steps[0][0], got, row.want)
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
