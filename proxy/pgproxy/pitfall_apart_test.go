package pgproxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestApartFromBlocks: statements that cannot run in a transaction block run with
// a current token as without the proxy, by both protocols, since nothing that is
// executed goes in front of them (DBeaver #29320); and with a stale one not at all.
func TestApartFromBlocks(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		admin := sc.admin()
		name := fmt.Sprintf("apart_%d", time.Now().UnixNano())
		sc.run(admin, "CREATE TABLE big (id int PRIMARY KEY, v text)")
		sc.run(admin, "CREATE TYPE mood AS ENUM ('a')")
		left := func() string {
			return sc.run(admin, "SELECT count(*) FROM pg_database WHERE datname LIKE '"+name+"%'; SELECT count(*) FROM pg_enum; SELECT relfilenode FROM pg_class WHERE relname IN ('big', 'big_pkey') ORDER BY 1")
		}
		database := strings.TrimSuffix(sc.run(admin, "SELECT current_database()"), "|")
		// The next undoes what the one before has done.
		statements := []string{
			"CREATE DATABASE %s", "ALTER DATABASE %s RENAME TO %s_2", "ALTER DATABASE %s_2 RENAME TO %s", "DROP DATABASE %s", "ALTER TYPE mood ADD VALUE IF NOT EXISTS 'b'",
			"VACUUM big", "VACUUM (FULL) big", "ANALYZE", "CLUSTER big USING big_pkey", "REINDEX TABLE big", "REINDEX TABLE CONCURRENTLY big", "REINDEX DATABASE " + database, "CHECKPOINT",
		}
		current, stale := sc.raw(sc.via(sc.token(1).String())), sc.raw(sc.via(sc.token(1).String()))
		for _, send := range []func(string) step{query, func(sql string) step { return series(sql) }} {
			for _, sql := range statements {
				sql = strings.ReplaceAll(sql, "%s", name)
				got := current.replay(t, send(sql))
				if got[len(got)-1] != "Z:I" || !strings.HasPrefix(got[len(got)-2], "C:") {
					t.Errorf("%s: %q", sql, got)
				}
			}
			got := current.replay(t, query("BEGIN"), send("VACUUM big"), query("COMMIT"))
			if !strings.Contains(strings.Join(got, " "), "E:ERROR:25001") {
				t.Errorf("VACUUM in a block: %q", got)
			}
		}
		sc.claim(sc.token(2))
		was := left()
		for _, send := range []func(string) step{query, func(sql string) step { return series(sql) }} {
			for _, sql := range statements {
				wantRefusal(t, stale.replay(t, send(strings.ReplaceAll(sql, "%s", name))), "TK001")
			}
		}
		if now := left(); now != was {
			t.Errorf("what is there was %s and is %s", was, now)
		}
	})
}

// TestCommitsHalfWay: what commits before it is done is refused before it begins,
// with words on what to do, and so are CALL and DO when they come to COMMIT.
func TestCommitsHalfWay(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		c := sc.raw(sc.via(sc.token(1).String()))
		c.replay(t, query("CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (1); COMMIT; INSERT INTO t VALUES (2); END $$"))
		c.replay(t, query("CREATE PROCEDURE nested() LANGUAGE plpgsql AS $$ BEGIN CALL commits(); END $$"))
		for sql, state := range map[string]string{
			"CREATE INDEX CONCURRENTLY ON t (v)":                                       "TK007",
			"CREATE UNIQUE INDEX /* x */ concurrently IF NOT EXISTS i ON t (v)":        "TK007",
			"DROP INDEX CONCURRENTLY t_pkey":                                           "TK007",
			"ALTER TABLE t DETACH PARTITION p CONCURRENTLY":                            "TK007",
			"CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p WITH (connect = false)": "TK007",
			"CALL commits()": "2D000", "CALL nested()": "2D000",
			"DO $$ BEGIN INSERT INTO t VALUES (1); COMMIT; INSERT INTO t VALUES (2); END $$":   "2D000",
			"DO $$ BEGIN INSERT INTO t VALUES (1); ROLLBACK; INSERT INTO t VALUES (2); END $$": "2D000",
		} {
			wantRefusal(t, c.replay(t, query(sql)), state)
			wantRefusal(t, c.replay(t, series(sql)), state)
			wantWords(t, "behind "+sql, c.replay(t, query("SELECT count(*) FROM t")), []string{"RowDescription", `D:["0"]`, "C:SELECT 1", "Z:I"})
		}
		_, err := sc.connect(sc.via(sc.token(1).String())).Exec(t.Context(), "CREATE INDEX CONCURRENTLY ON t (v)")
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Hint != "Run it on a connection without a token where that may write, or on the server itself." {
			t.Errorf("there is no hint where it may run: %#v", err)
		}
	})
}
