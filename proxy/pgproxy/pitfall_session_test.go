package pgproxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/own"
)

// TestOwnStatementsAreDropped: a client may drop prepared statements that it has
// not made, all or by name, inside of a block that is rolled back too, or of DO.
func TestOwnStatementsAreDropped(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		token := sc.token(1).String()
		each := "DO $$ DECLARE n text; BEGIN FOR n IN SELECT name FROM pg_prepared_statements LOOP EXECUTE 'DEALLOCATE ' || quote_ident(n); END LOOP; END $$"
		inDO := map[string][]step{
			"all":           {query("DO $$ BEGIN DEALLOCATE ALL; INSERT INTO t VALUES (1, 'a'); END $$"), query("INSERT INTO t VALUES (2, 'b')")},
			"each":          {query(each), query("INSERT INTO t VALUES (2, 'b')"), series(each), query("INSERT INTO t VALUES (3, 'c')")},
			"in a series":   {series(insertOne, each, "INSERT INTO t VALUES (2, 'b')"), series("INSERT INTO t VALUES (3, 'c')")},
			"in a block":    {query("BEGIN"), query(insertOne), query(each), query("COMMIT")},
			"and it fails":  {query("DO $$ BEGIN DEALLOCATE ALL; PERFORM 1/0; END $$"), query(insertOne), series("DO $$ BEGIN DEALLOCATE ALL; PERFORM 1/0; END $$"), query("INSERT INTO t VALUES (2, 'b')")},
			"in one Query":  {query(insertOne + "; " + each + "; INSERT INTO t VALUES (2, 'b')"), query("INSERT INTO t VALUES (3, 'c')")},
			"and then SETs": {query(each), query("SET fence.token = '" + token + "'"), query(insertOne)},
		}
		sc.alike(token, inDO)
		sc.alike(token+",ft1:x:1:h:test:stock", inDO)
		sc.alike(token, map[string][]step{
			"all":             {query("DEALLOCATE ALL"), query(insertOne), query("DEALLOCATE PREPARE ALL"), series("INSERT INTO t VALUES (2, 'b')")},
			"in a series":     {series("DEALLOCATE ALL", insertOne, "DEALLOCATE ALL", "INSERT INTO t VALUES (2, 'b')"), query("SELECT 1")},
			"rolled back":     {query("BEGIN"), query("DEALLOCATE ALL"), query("ROLLBACK"), query(insertOne), query("BEGIN"), series("DEALLOCATE ALL", "INSERT INTO t VALUES (2, 'b')"), query("COMMIT")},
			"before COMMIT":   {query("BEGIN"), query(insertOne), query("DEALLOCATE ALL"), query("COMMIT"), query("INSERT INTO t VALUES (2, 'b')")},
			"everything":      {query("DISCARD ALL"), query("SET fence.token = '" + token + "'"), query(insertOne), series("DISCARD ALL"), query("SELECT 1"), query("SET fence.token = '" + token + "'"), series("INSERT INTO t VALUES (2, 'b')")},
			"with several":    {query("DEALLOCATE ALL; " + insertOne), query("INSERT INTO t VALUES (2, 'b'); DEALLOCATE ALL"), query("INSERT INTO t VALUES (3, 'c')")},
			"and then failed": {query("SELECT 1; DEALLOCATE ALL; SELECT 1/0"), query(insertOne), series("DEALLOCATE ALL", "SELECT 1/0"), series("INSERT INTO t VALUES (2, 'b')")},
		})
	})
}

// TestOwnStatementIsDroppedByName: where the proxy sees that, all goes on as
// before. Otherwise a statement or COMMIT that needs it fails, with nothing done
// and nothing unfenced, and the next finds it in place again.
func TestOwnStatementIsDroppedByName(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		for i := checkStatement; i <= commitStatement; i++ { // those that go around a client's messages
			c := sc.raw(sc.via(sc.token(1).String()))
			c.replay(t, query("BEGIN"), query("DELETE FROM t"))
			own := fmt.Sprintf("SELECT name FROM pg_prepared_statements WHERE name LIKE '\\_fence\\_%%\\_%d'", i)
			name := strings.Trim(c.replay(t, query(own))[1], `D:[" ]`)
			wantWords(t, "seen", c.replay(t, query(`DEALLOCATE "`+name+`"`), query("COMMIT"), query("BEGIN"), series("DEALLOCATE "+name), query("DELETE FROM t")),
				[]string{"C:DEALLOCATE", "Z:T", "C:COMMIT", "Z:I", "C:BEGIN", "Z:T", "ParseComplete", "BindComplete", "C:DEALLOCATE", "Z:T", "C:DELETE 0", "Z:T"})
			drop := query("DO $$ BEGIN EXECUTE 'DEALL' || 'OCATE ' || (" + own + "); END $$")
			wantWords(t, "drop", c.replay(t, drop), []string{"C:DO", "Z:T"})
			c.replay(t, query("COMMIT"), query(insertOne), query("DO $$ BEGIN END $$"), query("BEGIN"), query("SELECT 1"), query("COMMIT"))
			wantWords(t, "the next", c.replay(t, query("DELETE FROM t"), query("BEGIN"), query(insertOne), query("COMMIT"))[1:], []string{"Z:I", "C:BEGIN", "Z:T", "C:INSERT 0 1", "Z:T", "C:COMMIT", "Z:I"})
			c.conn.Close()
			stale := sc.raw(sc.via(sc.token(1).String()))
			stale.replay(t, query("BEGIN"), query("INSERT INTO t VALUES (2)"), drop)
			sc.claim(sc.token(2))
			stale.replay(t, query("COMMIT"), query("INSERT INTO t VALUES (3)"), query("INSERT INTO t VALUES (4)"))
			stale.conn.Close()
			if n := sc.count(); n != 1 {
				t.Errorf("%d rows without statement %d", n, i)
			}
			sc.resource += "x"
			sc.run(sc.admin(), "TRUNCATE t")
		}
	})
}

// TestOwnStatementsAreDroppedUnseen: by a function, which is called before what
// needs them, or in the middle: once that fails, with nothing done.
func TestOwnStatementsAreDroppedUnseen(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		sc.run(sc.admin(), "CREATE FUNCTION drops() RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'DEALLOCATE ALL'; RETURN 1; END $$")
		for what, steps := range map[string][]step{
			"before":       {query("SELECT drops()"), query("INSERT INTO t VALUES (1)")},
			"in a block":   {query("BEGIN"), query("INSERT INTO t VALUES (1)"), query("SELECT drops()"), query("COMMIT")},
			"in DO":        {query("DO $$ BEGIN PERFORM drops(); INSERT INTO t VALUES (1); END $$")},
			"in DO's last": {query("DO $$ BEGIN INSERT INTO t VALUES (1); PERFORM drops(); END $$")},
		} {
			for _, token := range []string{sc.token(1).String(), sc.token(1).String() + ",ft1:x:1:h:test:stock"} {
				c := sc.raw(sc.via(token))
				said := c.replay(t, steps...)
				if last := said[len(said)-2:]; !strings.HasPrefix(last[0], "E:ERROR:26000:") || last[1] != "Z:I" {
					t.Errorf("%s: %q", what, said)
				}
				wantWords(t, what+", the next", c.replay(t, query("DELETE FROM t")), []string{"C:DELETE 0", "Z:I"})
				c.conn.Close()
			}
		}
	})
}

// TestOwnQuestionIsDropped: a statement by which the proxy asks for the token is
// made anew when it is gone.
func TestOwnQuestionIsDropped(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		for _, i := range []int{own.TokenStatement, own.TicketStatement} {
			token := sc.token(1).String()
			c := sc.raw(sc.via(token))
			c.replay(t, query(fmt.Sprintf("DO $$ BEGIN EXECUTE (SELECT 'DEALLOCATE ' || name FROM pg_prepared_statements WHERE name LIKE '\\_fence\\_%%\\_%d'); END $$", i)))
			c.replay(t, query("SET fence.token = '"+token+"'"))
			wantWords(t, "what asks for it", c.replay(t, query("DELETE FROM t")), []string{"C:DELETE 0", "Z:I"})
		}
	})
}

// TestForeignNames: the check means the same whoever the session is by now and
// whatever it finds first under a name (pgbouncer CVE-2025-12819).
func TestForeignNames(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		admin := sc.admin()
		user, password := s.Role(t, "LOGIN")
		sc.run(admin, "CREATE TABLE caught (what text); GRANT ALL ON caught, t TO PUBLIC; CREATE SCHEMA evil; GRANT ALL ON SCHEMA evil TO PUBLIC; GRANT EXECUTE ON FUNCTION fence.claim TO "+user)
		for _, f := range []string{
			"pg_sequence_last_value(regclass) RETURNS bigint", "current_setting(text, boolean) RETURNS text", "set_config(text, text, boolean) RETURNS text", "eq(text, text) RETURNS boolean",
			"eq(bigint, bigint) RETURNS boolean", "strpos(text, text) RETURNS int", "pg_current_xact_id_if_assigned() RETURNS xid8", "pg_advisory_xact_lock_shared(int, int) RETURNS text", "quote_nullable(text) RETURNS text",
			"to_regtype(text) RETURNS regtype", "eq(oid, oid) RETURNS boolean", "hashtext(text) RETURNS int", "now() RETURNS timestamptz",
		} {
			sc.run(admin, "CREATE FUNCTION evil."+f+" LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.caught VALUES ('"+strings.ReplaceAll(f, "'", "")+"'); RETURN NULL; END $$")
		}
		for _, of := range []string{"text", "bigint", "oid"} {
			sc.run(admin, fmt.Sprintf("CREATE OPERATOR evil.= (LEFTARG = %[1]s, RIGHTARG = %[1]s, FUNCTION = evil.eq); CREATE OPERATOR evil.<> (LEFTARG = %[1]s, RIGHTARG = %[1]s, FUNCTION = evil.eq)", of))
		}
		sc.run(admin, "CREATE DOMAIN evil.text AS int; CREATE TABLE evil.marks (a int); CREATE DOMAIN evil.oid AS pg_catalog.text; CREATE TABLE evil.pg_class (a int); CREATE DOMAIN evil.interval AS int")
		list := sc.token(1).String() + ",ft1:x:1:h:test:stock"
		for i, token := range []string{sc.token(1).String(), list, "", "bad"} {
			dsn := withParams(t, testenv.URLAs(sc.via(""), user, password), "options", "-c fence.token="+token+" -c search_path=evil,pg_temp,pg_catalog,public")
			c := sc.raw(dsn)
			id := 10 * i
			c.replay(t, query("CREATE TEMP TABLE marks (a int); CREATE TEMP TABLE pg_locks (a int)"))
			got := c.replay(t,
				query(fmt.Sprintf("INSERT INTO public.t VALUES (%d)", id+1)), series(fmt.Sprintf("INSERT INTO public.t VALUES (%d)", id+2)),
				query("BEGIN"), query(fmt.Sprintf("INSERT INTO public.t VALUES (%d)", id+3)), query("COMMIT"),
				query("BEGIN"), query("ROLLBACK"), query("SET search_path = public"), query("SELECT 1"))
			if caught := sc.run(admin, "SELECT what FROM caught"); caught != "" {
				t.Errorf("with %q it runs %s", token, caught)
			}
			said := strings.Join(got, " ")
			if wrote := strings.Count(said, "C:INSERT 0 1"); i < 2 && wrote != 3 || i >= 2 && wrote != 0 {
				t.Errorf("with %q: %q", token, got)
			}
			c.conn.Close()
		}
	})
}

// TestWhoeverTheSessionIs: SET ROLE and SET SESSION AUTHORIZATION to somebody who
// may nothing in the fence.
func TestWhoeverTheSessionIs(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		nobody, _ := s.Role(t, "NOLOGIN")
		sc.run(sc.admin(), "GRANT ALL ON t TO "+nobody)
		scripts := map[string][]step{}
		for _, become := range []string{"SET ROLE " + nobody, "SET SESSION AUTHORIZATION " + nobody} {
			scripts[become] = []step{
				query(become), query(insertOne), series("INSERT INTO t VALUES (2, 'b')"), query("BEGIN"), query("INSERT INTO t VALUES (3, 'c')"), query("COMMIT"),
				query("DEALLOCATE ALL"), query("INSERT INTO t VALUES (4, 'd')"), query("DO $$ BEGIN INSERT INTO t VALUES (5, 'e'); END $$"), query("CREATE SCHEMA nope"), query("SELECT current_user = session_user"),
			}
		}
		list := sc.token(1).String() + ",ft1:x:1:h:test:stock"
		sc.alike(sc.token(1).String(), scripts)
		sc.alike(list, scripts)
		stale := sc.raw(sc.via(sc.token(1).String()))
		stale.replay(t, query("SET ROLE "+nobody), query("BEGIN"), query(insertOne))
		sc.claim(sc.token(2))
		wantRefusal(t, stale.replay(t, query("COMMIT")), "TK001")
		wantRefusal(t, stale.replay(t, query(insertOne)), "TK001")
	})
}

// TestEncodings: what the proxy says to the server it says in the encoding that
// the client has chosen.
func TestEncodings(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		sc.resource = "größe"
		scripts := map[string][]step{}
		for _, encoding := range []string{"UTF8", "LATIN1", "WIN1251", "EUC_JP", "SQL_ASCII", "SJIS", "GB18030"} {
			scripts[encoding] = []step{
				query("SET client_encoding = " + encoding), query(insertOne), series("INSERT INTO t VALUES (2, 'b')"), query("BEGIN"), query("INSERT INTO t VALUES (3, 'c')"), query("COMMIT"), query("SELECT nothing"),
			}
		}
		sc.alike(sc.token(1).String(), scripts)
		stale := map[string]*raw{}
		for encoding := range scripts {
			stale[encoding] = sc.raw(sc.via(sc.token(1).String()))
			stale[encoding].replay(t, query("SET client_encoding = "+encoding), query("BEGIN"), query(insertOne), query("ROLLBACK"))
		}
		sc.claim(sc.token(2))
		for encoding, c := range stale {
			for _, s := range []step{query(insertOne), series(insertOne)} {
				// The server can tell of the resource only where there are letters for it.
				_, some := map[string]bool{"WIN1251": true, "EUC_JP": true, "SJIS": true}[encoding]
				if got := c.replay(t, s); got[len(got)-1] != "Z:I" || !strings.Contains(strings.Join(got, " "), "E:ERROR:TK001:") && !some {
					t.Errorf("%s: %q", encoding, got)
				}
			}
		}
		if n := sc.count(); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestChecksAreRenewed: the fence's own functions and domains may be made anew
// under sessions that use them.
func TestChecksAreRenewed(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		c, block, list := sc.raw(sc.via(sc.token(1).String())), sc.raw(sc.via(sc.token(1).String())), sc.raw(sc.via(sc.token(1).String()+",ft1:x:1:h:test:stock"))
		insert := func(id int) step { return query(fmt.Sprintf("INSERT INTO t VALUES (%d)", id)) }
		ok := []string{"C:INSERT 0 1", "Z:I"}
		wantWords(t, "before", c.replay(t, insert(1)), ok)
		wantWords(t, "before", list.replay(t, insert(2)), ok)
		block.replay(t, query("BEGIN"), insert(3))
		text, err := migrations.Files.ReadFile("0005_proxy.up.sql")
		if err != nil {
			t.Fatal(err)
		}
		sc.run(sc.admin(), string(text))
		wantWords(t, "after", c.replay(t, insert(4)), ok)
		wantWords(t, "after", list.replay(t, insert(5)), ok)
		wantWords(t, "after", block.replay(t, query("COMMIT")), []string{"C:COMMIT", "Z:I"})
		sc.claim(sc.token(2))
		for _, r := range []*raw{c, block, list} {
			wantRefusal(t, r.replay(t, insert(6)), "TK001")
		}
	})
}
