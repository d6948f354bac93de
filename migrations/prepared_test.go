package migrations_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// A prepared transaction keeps the fence of its check. The claim that it
// blocks names it, evict or not; it cannot be ended by a signal.
func TestPreparedTransactionBlocksClaim(t *testing.T) {
	t.Parallel()
	for _, outcome := range []string{"commit", "rollback"} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			races(t, func(t *testing.T, s *stage, level string, f form) {
				gid := s.table + " it's"
				s.begin(t, s.old, level)
				if err := f.check(t.Context(), s.old, s.r.writer(33), s.ticket); err != nil {
					t.Fatal(describe(err))
				}
				s.write(t, s.old, 33)
				exec(t, s.old, "prepare transaction '"+strings.ReplaceAll(gid, "'", "''")+"'")
				for _, evict := range []bool{false, true} {
					err := fails(t, s.next, "55P03", "select fence.claim($1, '20ms', $2)", s.r.writer(34), evict)
					if !strings.Contains(err.Detail, "prepared transaction '"+strings.ReplaceAll(gid, "'", "''")+"'") {
						t.Errorf("detail does not name it: %s", err.Detail)
					}
				}
				blocker := query[string](t, s.next, "select format('%s %s %s', pid, gid, evictable) from fence.blockers($1)", string(s.r))
				if want := fmt.Sprintf(" %s f", gid); blocker != want {
					t.Errorf("blockers: %q, want %q", blocker, want)
				}
				exec(t, s.next, outcome+" prepared '"+strings.ReplaceAll(gid, "'", "''")+"'")
				claim(t, s.next, s.r.writer(34))
				if got, want := s.rows(t, s.next, 33), map[string]int{"commit": 1}[outcome]; got != want {
					t.Errorf("the new holder sees %d rows, want %d", got, want)
				}
				s.staleNow(t, level)
			})
		})
	}
}

// I1: PREPARE TRANSACTION is no way past a check that was refused.
func TestStaleTransactionIsNotPrepared(t *testing.T) {
	t.Parallel()
	races(t, func(t *testing.T, s *stage, level string, f form) {
		s.begin(t, s.old, level)
		s.write(t, s.old, 33)
		claim(t, s.next, s.r.writer(34))
		mustBe(t, f.check(t.Context(), s.old, s.r.writer(33), s.ticket), "TK001", "check")
		exec(t, s.old, "prepare transaction '"+s.table+"'") // answered by ROLLBACK
		if n := query[int](t, s.next, "select count(*) from pg_prepared_xacts where gid = $1", s.table); n != 0 {
			t.Error("a stale transaction was prepared")
		}
	})
}

// A claim whose transaction was prepared is in the way of every other claim,
// and named, even if it was the first one of its resource.
func TestPreparedClaimIsNamed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.open(t)
		for i, known := range []bool{false, true} {
			r, gid := resource(fmt.Sprintf("r%d", i)), fmt.Sprintf("claim %d of %d", i, conn.PgConn().PID())
			if known {
				claim(t, conn, r.writer(32))
			}
			exec(t, conn, "begin")
			claim(t, conn, r.writer(33))
			exec(t, conn, "prepare transaction '"+gid+"'")
			err := fails(t, conn, "55P03", "select fence.claim($1, '20ms', true)", r.writer(34))
			if !strings.Contains(err.Detail, gid) {
				t.Errorf("known %t: detail does not name %q: %q", known, gid, err.Detail)
			}
			exec(t, conn, "rollback prepared '"+gid+"'")
			claim(t, conn, r.writer(34))
		}
	})
}

// The fence of a prepared transaction outlives a crash, and it is still named.
func TestPreparedTransactionBlocksAfterCrash(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		private := testenv.StartPostgres(t, testenv.PostgresConfig{Major: s.Major()})
		d := install(t, private)
		st := d.stage(t)
		exec(t, st.old, "begin")
		st.write(t, st.old, 33)
		exec(t, st.old, "select fence.check($1)", st.r.writer(33))
		exec(t, st.old, "prepare transaction 'before the crash'")
		private.Kill(t)
		private.Restart(t)
		next := d.open(t)
		err := fails(t, next, "55P03", "select fence.claim($1, '20ms', true)", st.r.writer(34))
		if !strings.Contains(err.Detail, "before the crash") {
			t.Errorf("detail does not name it: %s", err.Detail)
		}
		exec(t, next, "commit prepared 'before the crash'")
		claim(t, next, st.r.writer(34))
		if got := st.rows(t, next, 33); got != 1 {
			t.Errorf("the new holder sees %d rows, want 1", got)
		}
	})
}
