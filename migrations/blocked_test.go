package migrations_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// Live readers are neither waited for nor evicted by another reader's claim.
func TestReadersDoNotBlockReaders(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.cast(t)
		tk := claim(t, s.next, s.r.reader(35))
		exec(t, s.old, "begin")
		exec(t, s.old, presence, tk.seq, tk.epoch)
		exec(t, s.old, fastCheck, tk.seq, tk.epoch, s.r.reader(35))
		for _, n := range []int64{36, 37, 34} {
			exec(t, s.next, "select fence.claim($1, '0', true)", s.r.reader(n))
		}
		exec(t, s.old, "select fence.check($1)", s.r.reader(35))
		if !commit(t, s.old) {
			t.Error("a live reader was not committed")
		}
		if m := markOf(t, s.next, s.r); m.Reader != 37 {
			t.Errorf("mark is %+v", m)
		}
	})
}

// A reader's claim does wait for an older writer's transaction.
func TestReaderWaitsForOlderWriter(t *testing.T) {
	t.Parallel()
	races(t, func(t *testing.T, s *stage, level string, f form) {
		s.begin(t, s.old, level)
		s.write(t, s.old, 33)
		if err := f.check(t.Context(), s.old, s.r.writer(33), s.ticket); err != nil {
			t.Fatal(describe(err))
		}
		claiming := start(t, s.next, "select fence.claim($1)", s.r.reader(34))
		s.blocked(t, s.next)
		exec(t, s.old, "commit")
		if err := claiming.end(t); err != nil {
			t.Fatal(describe(err))
		}
		if got := s.rows(t, s.next, 33); got != 1 {
			t.Errorf("the reader sees %d rows, want 1", got)
		}
		s.staleNow(t, level)
	})
}

// Who merely read pg_sequences in an open transaction holds the claim up too:
// named, and evicted only on request.
func TestBystanderIsNamed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.cast(t)
		exec(t, s.old, "begin; select count(last_value) from pg_sequences")
		err := fails(t, s.next, "55P03", "select fence.claim($1, '20ms')", s.r.writer(34))
		if !names(err.Detail, s.old) {
			t.Errorf("detail does not name it: %q", err.Detail)
		}
		exec(t, s.old, "select 1")
		exec(t, s.next, "select fence.claim($1, '20ms', true)", s.r.writer(34))
		s.gone(t, s.old)
	})
}

// A superuser's session cannot be evicted by a role that is none: named so.
func TestSuperuserIsNotEvicted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		exec(t, s.old, "begin")
		exec(t, s.old, "select fence.check($1)", s.r.writer(33))
		err := fails(t, s.next, "55P03", "select fence.claim($1, '20ms', true)", s.r.writer(34))
		if !names(err.Detail, s.old) || !strings.Contains(err.Detail, "not evictable") {
			t.Errorf("detail does not name it as not evictable: %q", err.Detail)
		}
		if got := evicted(t, s.next, s.r, int64(34)); len(got) != 0 {
			t.Errorf("evicted %v", got)
		}
		exec(t, s.old, "commit")
	})
}

// Without the grant nobody is evicted, and the error says so.
func TestEvictionWithoutGrant(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		d := install(t, testenv.StartPostgres(t, testenv.PostgresConfig{Major: s.Major()}))
		st := d.cast(t)
		exec(t, st.next, "revoke pg_signal_backend, pg_read_all_stats from fence_owner")
		holding["checked"](t, st)
		err := fails(t, st.next, "55P03", "select fence.claim($1, '20ms', true)", st.r.writer(34))
		if !names(err.Detail, st.old) || !strings.Contains(err.Detail, "not evictable") {
			t.Errorf("detail does not name it as not evictable: %q", err.Detail)
		}
		if got := evicted(t, st.next, st.r, int64(34)); len(got) != 0 {
			t.Errorf("evicted %v", got)
		}
		exec(t, st.old, "rollback")
		exec(t, st.next, "select fence.claim($1, '20ms', true)", st.r.writer(34))
	})
}

// openClaims are claims whose client went quiet before COMMIT, of any kind.
// Each starts at writer 33, claimed.
var openClaims = map[string]func(s *stage) string{
	"first of a resource": func(s *stage) string { s.r += "-new"; return s.r.writer(33) },
	"next writer":         func(s *stage) string { return s.r.writer(34) },
	"older writer":        func(s *stage) string { return s.r.writer(33) },
	"first reader":        func(s *stage) string { return s.r.reader(34) },
}

// I4: a claim that its client left open holds up every other claim. It is named,
// and evicted; until then nobody is stuck for longer than the limit.
func TestOpenClaimIsEvicted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		for name, left := range openClaims {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := d.cast(t)
				token := left(s)
				exec(t, s.old, "begin")
				claim(t, s.old, token)
				openClaimIsEvicted(t, s, s.r.writer(40), name != "older writer")
			})
		}
		t.Run("further reader", func(t *testing.T) {
			t.Parallel()
			for _, token := range []func(r resource) string{
				func(r resource) string { return r.reader(40) },
				func(r resource) string { return r.writer(40) },
			} {
				s := d.cast(t)
				claim(t, s.next, s.r.reader(34))
				exec(t, s.old, "begin")
				claim(t, s.old, s.r.reader(35))
				openClaimIsEvicted(t, s, token(s.r), true)
			}
		})
	})
}

func openClaimIsEvicted(t *testing.T, s *stage, token string, blocks bool) {
	t.Helper()
	if blocks {
		err := fails(t, s.next, "55P03", "select fence.claim($1, '20ms')", token)
		if !names(err.Detail, s.old) {
			t.Errorf("detail does not name it: %q", err.Detail)
		}
	}
	begin := time.Now()
	exec(t, s.next, "select fence.claim($1, '100ms', true)", token)
	t.Logf("claimed after %v, with a limit of 100ms", time.Since(begin).Round(time.Millisecond))
	_, err := s.old.Exec(t.Context(), "commit")
	if survived := err == nil; survived == blocks {
		t.Errorf("the open claim's session survived: %t", survived)
	}
}

// A claim that is at work, since it waits itself, is not evicted: what it waits
// for is, and then both go through in turn.
func TestClaimAtWorkIsNotEvicted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.cast(t)
		holding["checked"](t, s)
		patient := s.app(t)
		claiming := start(t, patient, "select fence.claim($1, '1 day')", s.r.writer(34))
		s.blocked(t, patient)
		exec(t, s.next, "select fence.claim($1, '50ms', true)", s.r.writer(35))
		if err := claiming.end(t); err != nil {
			t.Errorf("a claim at work: %v", describe(err))
		}
		s.gone(t, s.old)
		if m := markOf(t, s.next, s.r); m.Writer != 35 {
			t.Errorf("mark is %+v", m)
		}
	})
}

// Whatever a claim waits for, it does not wait longer than its limit, and
// leaves the session's own limit as it was.
func TestClaimKeepsToItsLimit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.cast(t)
		exec(t, s.next, "set lock_timeout = '7s'")
		blockers := map[string]func(conn *pgx.Conn){
			"a checked transaction": func(conn *pgx.Conn) { exec(t, conn, "select fence.check($1)", s.r.writer(33)) },
			"the lock of claims": func(conn *pgx.Conn) {
				exec(t, conn, "select pg_advisory_xact_lock(fence.claim_key($1))", string(s.r))
			},
			"a lock on the mark": func(conn *pgx.Conn) {
				exec(t, conn, "select from fence.marks where resource = $1 for update", string(s.r))
			},
			"a lock on the marks": func(conn *pgx.Conn) { exec(t, conn, "lock table fence.marks in share row exclusive mode") },
		}
		for name, block := range blockers {
			admin := d.open(t)
			exec(t, admin, "begin")
			block(admin)
			for _, wait := range []string{"'40ms'", "'0'", "'-1 day'", "null"} {
				err := fails(t, s.next, "55P03", fmt.Sprintf("select fence.claim($1, %s)", wait), s.r.writer(34))
				if ours := strings.Contains(err.Message, "still waits"); !ours && !strings.HasPrefix(name, "a lock on") {
					t.Errorf("%s: %v", name, err)
				}
			}
			exec(t, admin, "rollback")
		}
		for i, wait := range []string{"'0'", "'-1 day'", "null", "'10 years'", "'178000000 years'"} {
			exec(t, s.next, fmt.Sprintf("begin; select fence.claim('%s', %s)", s.r.writer(int64(40+i)), wait))
			if got := query[string](t, s.next, "show lock_timeout"); got != "7s" {
				t.Errorf("lock_timeout is %s after a claim", got)
			}
			exec(t, s.next, "commit")
		}
		holding["checked"](t, &stage{database: d, r: s.r + "2", table: s.table, old: s.old, ticket: claim(t, s.next, (s.r + "2").writer(33))})
		fails(t, s.next, "55P03", "select fence.claim($1, '0', null)", (s.r + "2").writer(34)) // NULL is not yes
		exec(t, s.old, "rollback")
	})
}
