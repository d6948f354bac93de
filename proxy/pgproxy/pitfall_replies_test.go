package pgproxy

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

const insertOne = "INSERT INTO t VALUES (1, 'a')"

// TestOutOfTurn: notifications, notices and changes of parameters come between
// any two messages, those of the proxy's own included, and reach the client in
// the order in which the server has sent them.
func TestOutOfTurn(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		sc.alike(sc.token(1).String(), map[string][]step{
			"own notifications":  {query("LISTEN c"), query("NOTIFY c, 'x'"), query("BEGIN"), query("NOTIFY c, 'y'"), query(insertOne), query("COMMIT"), series("NOTIFY c, 'z'", insertOne)},
			"LISTEN in a series": {series("LISTEN c", "SELECT 1"), series("NOTIFY c", "SELECT 1")}, // pgdog #1512
			"notices":            {query("DO $$ BEGIN RAISE NOTICE 'x'; END $$; SELECT 1"), series("ROLLBACK", "COMMIT"), query("COMMIT")},
			"parameters": {
				query("SET application_name = 'x'"), query("BEGIN"), query("SET LOCAL TimeZone = 'Asia/Tokyo'"), query(insertOne), query("COMMIT"),
				series("SET DateStyle = 'German'", "SELECT current_date = current_date"), query("BEGIN"), query("SET IntervalStyle = 'sql_standard'"), query("ROLLBACK"), query("DISCARD ALL"),
			},
			"read-only": {query("SET default_transaction_read_only = on"), query("SELECT 1"), query(insertOne), query("BEGIN"), query("SELECT 1"), query("COMMIT")},
		})
		other := sc.admin()
		for _, token := range []string{sc.token(1).String(), "", shared(2).String()} {
			c := sc.raw(sc.via(token))
			c.replay(t, query("LISTEN c"))
			sc.run(other, "NOTIFY c, 'idle'")
			wantWords(t, "idle, with "+token, c.hear(1, "A:"), []string{"A:c=idle"})
			c.replay(t, query("BEGIN"), query("SELECT 1"))
			sc.run(other, "NOTIFY c, 'block'")
			c.say(t, query("COMMIT")...)
			wantWords(t, "at COMMIT, with "+token, c.hear(1, "Z:"), []string{"C:COMMIT", "A:c=block", "Z:I"})
			c.conn.Close()
		}
	})
}

// TestErrorsComeAtOnce: an error is told when the server has found it, the proxy's
// own refusal too, and not only after the client's Sync (multigres #1274). What
// follows is skipped, and the Sync is answered once.
func TestErrorsComeAtOnce(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		c := sc.raw(sc.via(sc.token(1).String()))
		sc.claim(sc.token(2))
		for name, messages := range map[string]step{
			"refused":          unsynced(insertOne),
			"refused, pinned":  append(unsynced(insertOne), &pgproto3.Flush{}),
			"a syntax error":   unsynced("SELEC"),
			"in the execution": unsynced("SHOW nothing"),
		} {
			c.say(t, messages...)
			if got := c.hear(1, "E:"); len(got) == 0 || got[len(got)-1][0] != 'E' {
				t.Fatalf("%s: %q", name, got)
			}
			c.say(t, unsynced(insertOne)...)
			c.say(t, &pgproto3.Close{ObjectType: 'S', Name: "x"}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Sync{})
			wantWords(t, name, c.hear(1, "Z:"), []string{"Z:I"})
		}
		if n := sc.count(); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestRefusedPipeline: of what is sent without waiting for replies, each message
// is refused on its own: the server skips what comes behind a failed check up to
// a Sync, and that must not be the client's next Query.
func TestRefusedPipeline(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		sc.claim(sc.token(2))
		c := sc.raw(sc.via(sc.token(1).String()))
		for name, s := range map[string]step{
			"queries":           slices.Concat(query(insertOne), query("SELECT 1"), query(insertOne+"; SELECT 1")),
			"calls":             slices.Concat(call(89), call(loCreate, "4711"), call(89)),
			"series":            slices.Concat(series(insertOne), series("SELECT 1", insertOne), series(insertOne)),
			"all of them":       slices.Concat(query(insertOne), series(insertOne), call(loCreate, "4711"), series("SELECT 1"), query(insertOne)),
			"procedures":        slices.Concat(query("DO $$ BEGIN INSERT INTO t VALUES (1); END $$"), series("DO $$ BEGIN INSERT INTO t VALUES (1); END $$"), query(insertOne)),
			"COPY, with data":   slices.Concat(copied("COPY t FROM STDIN", "1\ta\n"), query(insertOne), copied("COPY t FROM STDIN", "2\ta\n")),
			"COPY, given up":    slices.Concat(query("COPY t FROM STDIN"), step{&pgproto3.CopyData{Data: []byte("1\ta\n")}, &pgproto3.CopyFail{}}, query(insertOne)),
			"COPY in a series":  slices.Concat(unsynced("COPY t FROM STDIN"), step{&pgproto3.CopyData{Data: []byte("1\ta\n")}, &pgproto3.CopyDone{}, &pgproto3.Sync{}}, query(insertOne)),
			"one that commits":  slices.Concat(query("BEGIN; "+insertOne+"; COMMIT"), query(insertOne+"; COMMIT; BEGIN"), query("ROLLBACK")),
			"statements by two": slices.Concat(query("CREATE TABLE made ()"), query("VACUUM t"), query("CREATE DATABASE made_by_nobody")),
		} {
			got := c.replay(t, s)
			refused := 0
			for i, w := range got {
				switch {
				case w == "Z:I" && i > 0 && got[i-1] != "Z:I":
				case len(w) > 14 && w[:13] == "E:ERROR:TK001":
					refused++
				case w == "ParseComplete", w == "BindComplete", w == "C:ROLLBACK", len(w) > 8 && w[:8] == "N:25P01:":
				default:
					t.Errorf("%s: %q in %q", name, w, got)
				}
			}
			if want := boundaries(s); refused != want && name != "one that commits" || refused == 0 {
				t.Errorf("%s: %d refusals of %d: %q", name, refused, want, got)
			}
		}
		if n := sc.count(); n != 0 {
			t.Errorf("%d rows", n)
		}
		sc.claim(sc.token(3))
		wantWords(t, "a read", c.replay(t, query("SET fence.token = '"+sc.token(3).String()+"'"), query("SELECT 1"))[2:], []string{"RowDescription", `D:["1"]`, "C:SELECT 1", "Z:I"})
	})
}

// TestRepliesInTurn: dialogues after which proxies have given the reply of one
// message to another.
func TestRepliesInTurn(t *testing.T) {
	t.Parallel()
	bind := func(name string) step {
		return step{&pgproto3.Bind{PreparedStatement: name}, &pgproto3.Execute{}, &pgproto3.Sync{}}
	}
	describe := step{&pgproto3.Describe{ObjectType: 'S'}}
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		sc.alike(sc.token(1).String(), map[string][]step{
			"the next series behind a Bind that fails (pgbouncer #759)": {
				slices.Concat(bind("nothing"), step{&pgproto3.Parse{Query: insertOne}}, describe, step{&pgproto3.Sync{}}),
				slices.Concat(bind("nothing"), bind("nothing"), query("SELECT 1"), bind("nothing"), series(insertOne)),
			},
			"Close behind a Parse that fails (odyssey #1361, npgsql #5231)": {
				{&pgproto3.Parse{Name: "s", Query: "SELEC"}, &pgproto3.Close{ObjectType: 'S', Name: "s"}, &pgproto3.Sync{}},
				{&pgproto3.Close{ObjectType: 'S', Name: "s"}, &pgproto3.Parse{Name: "s", Query: insertOne}, &pgproto3.Sync{}},
				bind("s"),
				{&pgproto3.Parse{Name: "s", Query: "SELECT 1"}, &pgproto3.Bind{PreparedStatement: "s"}, &pgproto3.Execute{}, &pgproto3.Sync{}},
			},
			"COPY's messages where nothing is copied (pgcat #522)": {
				slices.Concat(step{&pgproto3.CopyData{Data: []byte("1\ta\n")}, &pgproto3.CopyDone{}, &pgproto3.CopyFail{}}, query("SELECT 1")),
				slices.Concat(unsynced(insertOne), step{&pgproto3.CopyDone{}}, unsynced("SELECT 1"), step{&pgproto3.Sync{}}),
				query("SELECT 2"),
			},
			"a driver's first words (pgdog #1087)": {query("SET DateStyle='ISO';SET extra_float_digits=2;show transaction_isolation")},
			"a failed block (pgdog #545, multigres #804)": {
				query("BEGIN"), query("SAVEPOINT s"), query("SELECT 1/0"), query(insertOne), series("ROLLBACK TO SAVEPOINT s"), query(insertOne),
				query("SELECT 1/0"), query("ROLLBACK TO s"), query("RELEASE s"), query("COMMIT"),
			},
			"an unnamed statement, used later (pgx #1635)": {
				{&pgproto3.Parse{Query: insertOne}, &pgproto3.Describe{ObjectType: 'S'}, &pgproto3.Sync{}},
				bind(""),
				{&pgproto3.Parse{Query: "SELECT 5"}, &pgproto3.Sync{}},
				call(89), bind(""), query("SELECT 1"), bind(""),
			},
			"a portal in slices": {
				query("BEGIN"),
				{&pgproto3.Parse{Query: "SELECT generate_series(1, 5)"}, &pgproto3.Bind{}, &pgproto3.Execute{MaxRows: 2}, &pgproto3.Sync{}},
				{&pgproto3.Execute{MaxRows: 2}, &pgproto3.Sync{}},
				{&pgproto3.Parse{Name: "i", Query: insertOne}, &pgproto3.Bind{PreparedStatement: "i", DestinationPortal: "i"}, &pgproto3.Execute{Portal: "i"}, &pgproto3.Sync{}},
				{&pgproto3.Execute{MaxRows: 2}, &pgproto3.Sync{}},
				query("COMMIT"),
			},
			"positions": {query("SELECT nothing FROM t"), series("SELECT 1 FRM t"), query("/* x */ SELECT 1; SELECT nothing"), query("BEGIN"), query("SELECT nothing"), query("COMMIT")},
			"what the server does not know": {
				slices.Concat(step{&pgproto3.Flush{}, &pgproto3.Sync{}, &pgproto3.Flush{}}, query("")), call(1 << 30), {&pgproto3.Describe{ObjectType: 'S', Name: "x"}, &pgproto3.Sync{}},
			},
		})
	})
}

// TestFlushWithoutSync: what a client asks for by Flush it gets before it says
// Sync (pgcat #761, #951, #953).
func TestFlushWithoutSync(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		for _, token := range []string{sc.token(1).String(), ""} {
			c := sc.raw(sc.via(token))
			for i := range 5 {
				c.say(t, append(unsynced("SELECT 7"), &pgproto3.Flush{})...)
				wantWords(t, "flushed", c.hear(1, "C:"), []string{"ParseComplete", "BindComplete", `D:["7"]`, "C:SELECT 1"})
				if i == 3 {
					c.say(t, &pgproto3.Sync{})
					wantWords(t, "synced", c.hear(1, "Z:"), []string{"Z:I"})
				}
			}
			c.conn.Close()
		}
	})
}
