package pgproxy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TestNothingIsExecuted: the checks are no statements: a server that logs all
// statements logs those of the client alone, as it does without the proxy, and so
// there are no settings or checks in between (pgbouncer #879). CALL and DO run
// between a BEGIN and a COMMIT.
func TestNothingIsExecuted(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, shared *testenv.PostgresServer) {
		t.Parallel()
		s := testenv.StartPostgres(t, testenv.PostgresConfig{Major: shared.Major(), Settings: map[string]string{
			"shared_preload_libraries": "pg_stat_statements", "log_statement": "all", "logging_collector": "on", "log_line_prefix": "%p|", "log_directory": "log",
		}})
		sc := newScene(t, s, Config{})
		admin := sc.admin()
		sc.run(admin, "CREATE EXTENSION pg_stat_statements")
		statements := []step{
			query(insertOne), series("DELETE FROM t"), query("SELECT 1; SELECT 2"), query("BEGIN"), query(insertOne), series("SELECT 3"), query("COMMIT"), series("BEGIN", "DELETE FROM t", "COMMIT"),
			query("BEGIN ISOLATION LEVEL SERIALIZABLE"), query("SAVEPOINT s"), query("ROLLBACK TO s"), query("ROLLBACK"), copied("COPY t FROM STDIN", "9\ta\n"), query("DELETE FROM t"), query("VACUUM t"),
		}
		procedures := []step{query("DO $$ BEGIN END $$"), series("DO $$ BEGIN END $$")}
		var logs [3][]string
		var counted [3]string
		for i, c := range []struct {
			dsn   string
			steps []step
		}{{sc.url, statements}, {sc.via(sc.token(1).String()), statements}, {sc.via(sc.token(1).String()), procedures}} {
			r := sc.raw(c.dsn)
			pid := r.backend(t)
			sc.run(admin, "SELECT pg_stat_statements_reset() IS NULL")
			r.replay(t, c.steps...)
			counted[i] = sc.run(admin, "SELECT string_agg(calls || ' ' || query, '; ' ORDER BY query) FROM pg_stat_statements WHERE query !~ 'pg_stat_statements'")
			r.replay(t, query("SELECT 'the end'"))
			r.conn.Close()
			logs[i] = logged(t, sc, pid)
		}
		wantWords(t, "the log", logs[1], logs[0])
		if counted[1] != counted[0] || !strings.Contains(counted[0], "INSERT") {
			t.Errorf("pg_stat_statements has %s, and without the proxy %s", counted[1], counted[0])
		}
		want := []string{"execute: BEGIN", "statement: DO $$ BEGIN END $$", "execute: COMMIT", "execute: BEGIN", "execute: DO $$ BEGIN END $$", "execute: COMMIT", "statement: SELECT 'the end'"}
		wantWords(t, "the log of procedures", logs[2], want)
	})
}

// logged is what a backend has executed from when it was asked for its process id.
func logged(t *testing.T, sc *scene, pid int) (lines []string) {
	t.Helper()
	line := regexp.MustCompile(fmt.Sprintf(`(?m)^%d\|LOG:  (statement|execute)[^:]*: (.*)$`, pid))
	admin := sc.admin()
	eventually(t, "the log has been written", func() bool {
		text := sc.run(admin, "SELECT string_agg(pg_read_file('log/' || f), '') FROM pg_ls_dir('log') AS f")
		lines = nil
		for _, m := range line.FindAllStringSubmatch(text, -1) {
			if lines = append(lines, m[1]+": "+m[2]); m[2] == "SELECT pg_backend_pid()" {
				lines = nil
			}
		}
		return strings.Contains(strings.Join(lines, " "), "the end")
	})
	return lines
}

// TestNothingIsWritten: to be checked costs a transaction that only reads no id,
// no write-ahead log and no lock that is not on the fast path.
func TestNothingIsWritten(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, shared *testenv.PostgresServer) {
		t.Parallel()
		// A server of its own: of the log it is only known how long it is in all.
		s := testenv.StartPostgres(t, testenv.PostgresConfig{Major: shared.Major(), Settings: map[string]string{"autovacuum": "off", "wal_level": "minimal", "max_wal_senders": "0"}})
		sc := newScene(t, s, Config{})
		for _, token := range []string{sc.token(1).String(), sc.token(1).String() + ",ft1:x:1:h:test:stock", ""} {
			c := sc.raw(sc.via(token))
			const id = "SELECT pg_current_xact_id_if_assigned() IS NULL"
			steps := []step{query(id), series(id), query("BEGIN"), query(id), series(id), query("COMMIT"), query("BEGIN READ ONLY"), query(id), query("COMMIT"), query("BEGIN ISOLATION LEVEL SERIALIZABLE"), query(id), query("COMMIT")}
			c.replay(t, steps...) // what is needed once, like caches that it fills, is there then
			sc.run(sc.admin(), "CHECKPOINT")
			wal := sc.run(sc.admin(), "SELECT pg_current_wal_insert_lsn()")
			got := strings.Join(c.replay(t, steps...), " ")
			if strings.Count(got, `D:["t"]`) != 6 {
				t.Errorf("with %q: %s", token, got)
			}
			if now := sc.run(sc.admin(), "SELECT pg_current_wal_insert_lsn()"); now != wal {
				t.Errorf("with %q the log has gone on from %s to %s", token, wal, now)
			}
			c.replay(t, query("BEGIN"), query("SELECT fence.check()"))
			locks := c.replay(t, query("SELECT mode, fastpath FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN (SELECT oid FROM pg_class WHERE relkind = 'S')"))
			if token != "" && !slices.Contains(locks, `D:["RowExclusiveLock" "t"]`) {
				t.Errorf("with %q: %q", token, locks)
			}
			c.conn.Close()
		}
	})
}

// TestClaimsDoNotDeadlock: sessions that work and are overtaken by each other in
// turn wait for each other in one order: one that is newer is let in, and one that
// is older is told so, with no deadlock to resolve.
func TestClaimsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		var all sync.WaitGroup
		said := make(chan string, 1000)
		for n := range 8 {
			all.Go(func() {
				for i := range 4 {
					token := sc.token(int64(10*i + n + 1)).String()
					if n%2 == 1 {
						token = "ft1:x:" + fmt.Sprint(10*i+n+1) + ":h" + fmt.Sprint(n) + ":test:stock," + token
					}
					conn, err := pgx.Connect(t.Context(), sc.via(token))
					if err != nil {
						said <- err.Error()
						return
					}
					for j := range 4 {
						_, err = conn.Exec(t.Context(), "INSERT INTO t VALUES ($1)", 1000*n+100*i+10*j)
						said <- stateOf(err)
						_ = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
							_, err := tx.Exec(t.Context(), "INSERT INTO t VALUES ($1)", 1000*n+100*i+10*j+1)
							said <- stateOf(err)
							return err
						})
					}
					_ = conn.Close(t.Context())
				}
			})
		}
		all.Wait()
		close(said)
		for state := range said {
			if !slices.Contains([]string{"", "TK001", "TK004"}, state) {
				t.Errorf("somebody is told %s", state)
			}
		}
	})
}

// TestNewHolderSeesAll: the first snapshot of a holder is taken after its claim,
// at every level and however its token comes, so that it sees what the holder
// before it has written (I9).
func TestNewHolderSeesAll(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{ClaimWait: testLimit}, func(t *testing.T, sc *scene) {
		number, admin := int64(0), sc.admin()
		for name, steps := range map[string][]step{
			"a statement":        {query("SELECT count(*) FROM t")},
			"a series":           {series("SELECT count(*) FROM t")},
			"a block":            {query("BEGIN ISOLATION LEVEL REPEATABLE READ"), query("SELECT count(*) FROM t")},
			"a block in a row":   {series("BEGIN ISOLATION LEVEL SERIALIZABLE", "SELECT count(*) FROM t")},
			"several statements": {query("SELECT 1; SELECT count(*) FROM t")},
		} {
			number += 2
			old, next := sc.raw(sc.via(sc.token(number).String())), sc.raw(sc.via(""))
			next.replay(t, query("SELECT count(*) FROM t"), query("SET fence.token = '"+sc.token(number+1).String()+"'"))
			old.replay(t, query("BEGIN"), query(insertOne), query("SELECT fence.check()"))
			answered := make(chan []string, 1)
			go func() { answered <- next.replay(t, steps...) }()
			eventually(t, "the claim waits", func() bool {
				return sc.run(admin, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%fence.claim(%' AND wait_event_type = 'Lock' AND datname = current_database()") == "1|"
			})
			wantWords(t, name+": COMMIT", old.replay(t, query("COMMIT")), []string{"C:COMMIT", "Z:I"})
			if got := <-answered; !slices.Contains(got, `D:["1"]`) || slices.Contains(got, `D:["0"]`) {
				t.Errorf("%s: %q", name, got)
			}
			old.conn.Close()
			next.conn.Close()
			sc.run(admin, "DELETE FROM t")
		}
	})
}
