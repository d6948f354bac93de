package pgproxy

import (
	"context"
	"strings"
	"testing"
)

// TestLockBeforeSnapshot: a block that keeps its first snapshot, and begins with
// LOCK TABLE, sees what was committed before it got the lock; and it is fenced.
func TestLockBeforeSnapshot(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		tokens := []string{sc.token(1).String(), ""}
		for _, c := range []struct{ set, begin, lock string }{
			{"", "BEGIN", "LOCK TABLE t IN SHARE MODE"}, // READ COMMITTED
			{"", "BEGIN ISOLATION LEVEL REPEATABLE READ", "LOCK TABLE t IN SHARE MODE"},
			{"", "", "BEGIN ISOLATION LEVEL SERIALIZABLE; LOCK t IN SHARE MODE"},
			{"", "BEGIN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "LOCK TABLE t IN SHARE MODE"},
			{"", "BEGIN; BEGIN ISOLATION LEVEL SERIALIZABLE", "LOCK TABLE t IN SHARE MODE"},
			{"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ", "BEGIN", "LOCK TABLE t IN SHARE MODE"},
			{"SET default_transaction_isolation = 'serializable'", "BEGIN", "LOCK TABLE t IN SHARE MODE; LOCK TABLE t IN SHARE MODE"},
			{"SELECT set_config('default_transaction_isolation', 'repeatable read', false)", "BEGIN", "LOCK TABLE t IN SHARE MODE"},
		} {
			for _, token := range tokens {
				sc.locksFirst(token, c.set, c.begin, c.lock, false)
				if c.begin != "" && !strings.Contains(c.lock, ";") {
					sc.locksFirst(token, c.set, c.begin, c.lock, true)
				}
			}
		}
		old := sc.connect(sc.via(tokens[0]))
		sc.exec(old, "BEGIN ISOLATION LEVEL REPEATABLE READ")
		sc.exec(old, "LOCK TABLE t IN SHARE MODE")
		sc.claim(sc.token(2))
		sc.wants(second(old.Exec(t.Context(), "COMMIT")), "TK001")

		sc.run(sc.admin(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database()); END $$`)
		sc.locksFirst(sc.token(2).String(), "", "BEGIN", "LOCK TABLE t IN SHARE MODE", true)
	})
}

// locksFirst begins a block with LOCK TABLE, which waits until another one has
// written, and wants that seen.
func (sc *scene) locksFirst(token, set, begin, lock string, extended bool) {
	sc.t.Helper()
	writer, locker, admin := sc.admin(), sc.connect(sc.via(token)), sc.admin()
	for _, sql := range []string{set, begin} {
		if sql != "" {
			sc.exec(locker, sql)
		}
	}
	sc.run(writer, "BEGIN; "+insertOne)
	seen := make(chan string, 1)
	go func() {
		var err error
		if c := locker.PgConn(); extended {
			_, err = c.ExecParams(context.Background(), lock, nil, nil, nil, nil).Close()
		} else {
			_, err = c.Exec(context.Background(), lock).ReadAll()
		}
		if err != nil {
			seen <- err.Error()
			return
		}
		r := locker.PgConn().ExecParams(context.Background(), "SELECT count(*) FROM t", nil, nil, nil, nil).Read()
		if r.Err != nil {
			seen <- r.Err.Error()
			return
		}
		seen <- string(r.Rows[0][0])
	}()
	eventually(sc.t, "it waits for the lock", func() bool {
		return sc.run(admin, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 't'::regclass") == "1|"
	})
	sc.run(writer, "COMMIT")
	if n := <-seen; n != "1" {
		sc.t.Errorf("%s; %s; %s, token %q: behind LOCK TABLE it sees %s rows", set, begin, lock, token, n)
	}
	sc.exec(locker, "COMMIT")
	sc.run(admin, "DELETE FROM t")
}
