package pgproxy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// step is what a client sends at once; it then reads all replies.
type step []pgproto3.FrontendMessage

func query(sql string) step { return step{&pgproto3.Query{String: sql}} }

// series are statements in one series of messages, up to Sync.
func series(texts ...string) step { return append(unsynced(texts...), &pgproto3.Sync{}) }

func unsynced(texts ...string) step {
	var all step
	for _, sql := range texts {
		all = append(all, &pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Execute{})
	}
	return all
}

// named prepares one statement under a name.
func named(name, sql string) step {
	return step{&pgproto3.Parse{Name: name, Query: sql}, &pgproto3.Sync{}}
}

// executed runs statements that were prepared, each in a portal of its name.
func executed(names ...string) step {
	var all step
	for _, name := range names {
		all = append(all, &pgproto3.Bind{PreparedStatement: name, DestinationPortal: name})
	}
	for _, name := range names {
		all = append(all, &pgproto3.Execute{Portal: name})
	}
	return append(all, &pgproto3.Sync{})
}

// call is a FunctionCall with arguments as text.
func call(oid uint32, arguments ...string) step {
	f := &pgproto3.FunctionCall{Function: oid}
	for _, a := range arguments {
		f.ArgFormatCodes = append(f.ArgFormatCodes, 0)
		f.Arguments = append(f.Arguments, []byte(a))
	}
	return step{f}
}

// play sends the steps and returns what comes back: a word for each error,
// completion and ReadyForQuery.
func (c *raw) play(t *testing.T, steps ...step) string {
	t.Helper()
	_ = c.conn.SetDeadline(time.Now().Add(testLimit))
	var words []string
	for _, s := range steps {
		var b []byte
		ready := 0
		for _, m := range s {
			switch m.(type) {
			case *pgproto3.Query, *pgproto3.FunctionCall, *pgproto3.Sync:
				ready++
			}
			b, _ = m.Encode(b)
		}
		if _, err := c.conn.Write(b); err != nil {
			t.Fatal(err)
		}
		words = append(words, c.replies(ready)...)
	}
	return strings.Join(words, " ")
}

func (c *raw) replies(ready int) (words []string) {
	for ready > 0 {
		m, err := c.Receive()
		if err != nil {
			return append(words, err.Error())
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			words = append(words, "E:"+m.Code)
		case *pgproto3.CommandComplete:
			words = append(words, string(m.CommandTag))
		case *pgproto3.ReadyForQuery:
			words = append(words, "Z:"+string(m.TxStatus)+" /")
			ready--
		}
	}
	return words
}

const (
	loCreate  = 715  // lo_create(oid)
	setConfig = 2078 // set_config(text, text, boolean)

	thawDo = "DO $$ BEGIN PERFORM thaw(1); END $$"
)

// longName is as long as a name may be: of a longer one the server takes no more.
var longName = strings.Repeat("n", 63)

// TestAttacksUntokened: ways to write in a session that may only read. Before
// PostgreSQL 16 RESET lifts read-only, and large objects do not mind it.
func TestAttacksUntokened(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		sc.prepareHostile()
		sc.claim(shared(2))
		admin := sc.admin()
		want := sc.run(admin, hostileFingerprint)
		for _, token := range []string{"", shared(2).String()} {
			for _, steps := range [][]step{
				{query(thawDo)},
				{series(thawDo)},
				{query(thawDo + "; SELECT 1")},
				{query("SELECT 1; " + thawDo)},
				{series(thawDo, "COMMIT")},
				{series(thawDo, thawDo)},
				{series(thawDo, "PREPARE TRANSACTION 'attack'"), query("COMMIT PREPARED 'attack'")},
				{series(thawDo, "BEGIN"), query("COMMIT")},
				{query("SELECT thaw(2)")},
				{series("SELECT thaw(2)")},
				{query("SELECT thaw(2); COMMIT")},
				{query("BEGIN; SELECT thaw(2); COMMIT")},
				{query("EXPLAIN ANALYZE SELECT thaw(2)")},
				{query("COPY (SELECT thaw(2)) TO STDOUT")},
				{query("BEGIN"), query("SELECT thaw(2)"), query("COMMIT")},
				{query("BEGIN"), query("SELECT thaw(2); COMMIT")},
				{query("BEGIN"), query("DECLARE c CURSOR WITH HOLD FOR SELECT thaw(2)"), query("COMMIT")},
				{query("DECLARE c CURSOR WITH HOLD FOR SELECT thaw(2)")},
				{named("d", "DECLARE c CURSOR WITH HOLD FOR SELECT thaw(2)"), query("EXECUTE d"), query("BEGIN"), query("EXECUTE d"), query("COMMIT")},
				{query("PREPARE thaw AS SELECT set_config($1, NULL, true)"), query("EXECUTE thaw('transaction_read_only'); INSERT INTO t VALUES (3, 'a')")},
				{query("PREPARE thaw AS SELECT set_config($1, NULL, true)"), series("EXECUTE thaw('transaction_read_only')", "INSERT INTO t VALUES (3, 'a')")},
				{query("SELECT lo_create(4711)")},
				{series("SELECT lo_create(4711)")},
				{call(loCreate, "4711")},
				{query("BEGIN"), call(loCreate, "4711"), query("COMMIT")},
				{query("COPY (INSERT INTO t VALUES (4, 'a') RETURNING id) TO STDOUT")},
				{
					named("a", "SHOW port"), query("DO $$ BEGIN EXECUTE 'DEALLOCATE a'; EXECUTE 'PREPARE a AS INSERT INTO t VALUES (5, ''a'')'; END $$"),
					executed("a"),
				},
			} {
				c := sc.raw(sc.via(token))
				got := c.play(t, steps...)
				c.conn.Close()
				if left := sc.run(admin, hostileFingerprint); left != want {
					t.Fatalf("%q: %s\nwritten: %s", steps[0][0], got, left)
				}
			}
		}
	})
}

// TestAttacksStale: ways to write under a token that is not current any more. A
// nil step claims a newer one.
func TestAttacksStale(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		sc.prepareHostile()
		admin := sc.admin()
		want := sc.run(admin, hostileFingerprint)
		const commits = "DO $$ BEGIN INSERT INTO t VALUES (2, 'a'); COMMIT; INSERT INTO t VALUES (3, 'a'); END $$"
		for name, steps := range map[string][]step{
			"a token refused, then a series that begins with SHOW": {
				named("a", "INSERT INTO t VALUES (2, 'a')"), query("SET fence.token = 'bad'"), query("SELECT 1"),
				append(step{&pgproto3.Parse{Query: "SHOW port"}}, executed("a")...),
				slices.Concat(step{&pgproto3.Parse{Query: "SHOW port"}}, unsynced("BEGIN"), executed("a")), query("COMMIT"),
			},
			"statements that commit": {nil, query(thawDo + "; SELECT 1"), query(commits), series(commits), series("SELECT 1", commits, "COMMIT")},
			"a name given anew": {
				named("a", "SHOW port"), query("DO $$ BEGIN EXECUTE 'DEALLOCATE a'; EXECUTE 'PREPARE a AS INSERT INTO t VALUES (2, ''a'')'; END $$"),
				nil, executed("a"),
			},
			"a portal that is older than the token": {
				named("c", "SELECT set_config('fence.token', 'ft1:x:1:h:test:nowhere', false)"), named("i", "INSERT INTO t VALUES (2, 'a')"), executed("c", "i"),
			},
			"around COMMIT": {
				query("BEGIN"), query("SELECT 1"), nil, series("COMMIT", "INSERT INTO t VALUES (2, 'a')"),
				series("INSERT INTO t VALUES (2, 'a')", "COMMIT", "INSERT INTO t VALUES (3, 'a')"), query("INSERT INTO t VALUES (2, 'a'); COMMIT; BEGIN"),
				query("BEGIN; INSERT INTO t VALUES (2, 'a'); PREPARE TRANSACTION 'stale'"), query("COMMIT PREPARED 'stale'"),
			},
			"COMMIT by EXECUTE": {
				named("c", "COMMIT"), named("p", "PREPARE TRANSACTION 'stale'"), named("e", "EXECUTE c"), query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), nil,
				query("EXECUTE c"), query("ROLLBACK"), query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), query(`SELECT 1; EXECUTE "c"`), query("ROLLBACK"),
				query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), series("EXECUTE C"), query("ROLLBACK"),
				query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), executed("e"), query("ROLLBACK"),
				query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), query(`EXECUTE U&"\0063"`), query("ROLLBACK"),
				query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), query("EXECUTE e"), query("ROLLBACK"),
				named("f", "EXECUTE e"), query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), executed("f"), query("ROLLBACK"),
				query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), query("EXECUTE p"), query("COMMIT PREPARED 'stale'"),
			},
			"COMMIT by a name that is cut": {
				named(longName+"1", "COMMIT"), query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), nil,
				{&pgproto3.Bind{PreparedStatement: longName + "2"}, &pgproto3.Execute{}, &pgproto3.Sync{}},
				query("ROLLBACK"),
				query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"),
				{
					&pgproto3.Parse{Query: "COMMIT"}, &pgproto3.Bind{DestinationPortal: longName + "1"}, &pgproto3.Execute{Portal: longName + "2"},
					&pgproto3.Sync{},
				},
			},
			"COMMIT by a name in another encoding": {
				query("SET client_encoding = LATIN1"), named("\xe4", "COMMIT"), query("SET client_encoding = UTF8"),
				query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), nil, executed("ä"), query("ROLLBACK"),
				query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"),
				append(unsynced("SET client_encoding = LATIN1"), &pgproto3.Parse{Query: "COMMIT"}, &pgproto3.Bind{DestinationPortal: "\xe4"}, &pgproto3.Sync{}),
				{&pgproto3.Execute{Portal: "ä"}, &pgproto3.Sync{}},
			},
			// Read as ever, all of it is one SELECT of a text.
			"texts that are read otherwise before the server says so": {
				query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), nil, append(unsynced("SET standard_conforming_strings = off"), query(`SELECT '\'';COMMIT;--'`)...), query("ROLLBACK"),
				query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), append(unsynced("SELECT set_config('standard_conforming_strings', 'off', false)"), query(`SELECT '\'';COMMIT;--'`)...), query("ROLLBACK"),
				query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), append(unsynced("SET client_encoding = SJIS"), query("SELECT E'\x83\\';COMMIT;--'")...), query("ROLLBACK"),
				query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), append(unsynced("SELECT set_config('client_encoding', 'SJIS', false)"), query("SELECT E'\x83\\';COMMIT;--'")...), query("ROLLBACK"),
				query("BEGIN"), query("INSERT INTO t VALUES (2, 'a')"), append(unsynced("UPDATE pg_settings SET setting = 'SJIS' WHERE name = 'client_encoding'"), query("SELECT E'\x83\\';COMMIT;--'")...), query("ROLLBACK"),
			},
			"definitions": {nil, query("CREATE TABLE made (id int)"), query("CREATE SCHEMA made CREATE TABLE made (id int)"), call(loCreate, "4711")},
		} {
			t.Run(name, func(t *testing.T) {
				sc := *sc
				sc.t, sc.resource = t, name
				c := sc.raw(sc.via(sc.token(1).String()))
				var got []string
				for _, s := range steps {
					if s == nil {
						sc.claim(sc.token(2))
						continue
					}
					got = append(got, c.play(t, s))
				}
				if left := sc.run(admin, hostileFingerprint); left != want {
					t.Fatalf("%q\nwritten: %s", got, left)
				}
			})
		}
	})
}

// TestAttacksAllow: a token that is laid over a session that needs none counts
// from there on, however it is set.
func TestAttacksAllow(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{Untokened: Allow})
		sc.claim(sc.token(2))
		stale, insert := sc.token(1).String(), "INSERT INTO t VALUES (1, 'a')"
		set := "SET fence.token = '" + stale + "'"
		for _, steps := range [][]step{
			{append(query(set), query(insert)...)},
			{series(set, insert)},
			{append(series(set), series(insert)...)},
			{series("BEGIN", set, insert, "COMMIT")},
			{series("BEGIN", insert, set, "COMMIT")},
			{series("BEGIN", set, "COMMIT", insert)},
			{query("BEGIN"), query(insert), query(set), query("PREPARE TRANSACTION 'x'"), query("COMMIT PREPARED 'x'")},
			{query("BEGIN"), query("SAVEPOINT a"), query(set), query(insert), query("RELEASE a"), query("COMMIT")},
			{query("SELECT set_config('fence.token', '" + stale + "', false)"), query(insert)},
			{query("SELECT set_config('fence.token', '" + stale + "', false); " + insert)},
			{call(setConfig, "fence.token", stale, "f"), query(insert)},
			{append(call(setConfig, "fence.token", stale, "f"), series(insert)...)},
			{query(`SET u&"fence\002etoken" = '` + stale + "'"), query(insert)},
			{query(`SET FENCE . /* */ "token" = '` + stale + "'"), query(insert)},
			{query("PREPARE c AS SELECT set_config($1, $2, false)"), query("EXECUTE c('fence.token', '" + stale + "')"), query(insert)},
			{named("ä", "COMMIT"), named("ö", insert), query("BEGIN"), query(insert), query(set), executed("ä")},
			{query("SET client_encoding = LATIN1"), named("\xe4", "COMMIT"), query("SET client_encoding = UTF8"), query("BEGIN"), query(insert), query(set), executed("ä")},
		} {
			c := sc.raw(sc.via(""))
			got := c.play(t, steps...)
			c.conn.Close()
			if n := sc.count(); n != 0 {
				t.Fatalf("%q: %s", steps[0][0], got)
			}
		}
	})
}
