package migrations_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const presence = "select pg_advisory_xact_lock_shared($1::oid::int4, ($2::bigint << 32 >> 32)::int4)"

// cast is a stage whose old holder is an ordinary role, so that it can be
// evicted, with a row in the table.
func (d *database) cast(t *testing.T) *stage {
	t.Helper()
	s := d.stage(t)
	s.write(t, s.next, 1)
	s.old = s.app(t)
	return s
}

// app opens another session of an ordinary role that may claim and write.
func (s *stage) app(t *testing.T) *pgx.Conn {
	t.Helper()
	role, url := s.login(t, "")
	admin := s.open(t)
	exec(t, admin, "select pg_advisory_lock(hashtextextended('fence.grant', 7203410))") // see TestGrantAtOnce
	exec(t, admin, fmt.Sprintf(`grant execute on function fence.claim(text, interval, boolean), fence.evict(text, bigint), fence.blockers(text) to %s;
		grant select on fence.marks, fence.adoptions to %[1]s; grant all on %s to %[1]s`, role, s.table))
	exec(t, admin, "select pg_advisory_unlock_all()")
	return connect(t, url)
}

// names tells whether the DETAIL of a blocked claim names the session.
func names(detail string, conn *pgx.Conn) bool {
	return strings.Contains(detail, fmt.Sprintf("pid %d, user ", conn.PgConn().PID()))
}

// holding are the ways in which an old holder sits on row r. Each leaves its
// transaction idle.
var holding = map[string]func(t *testing.T, s *stage){
	"checked": func(t *testing.T, s *stage) {
		exec(t, s.old, "begin; update "+s.table+" set n = 2")
		exec(t, s.old, "select fence.check($1)", s.r.writer(33))
	},
	"checked by ticket": func(t *testing.T, s *stage) {
		exec(t, s.old, "begin; update "+s.table+" set n = 2")
		exec(t, s.old, fastCheck, s.ticket.seq, s.ticket.epoch, s.r.writer(33))
	},
	"check failed, caught": func(t *testing.T, s *stage) {
		exec(t, s.old, "begin; update "+s.table+" set n = 2; savepoint s")
		fails(t, s.old, "TK001", "select fence.check($1)", s.r.writer(32))
		exec(t, s.old, "rollback to s")
	},
	"not checked yet": func(t *testing.T, s *stage) {
		exec(t, s.old, "begin")
		exec(t, s.old, presence, s.ticket.seq, s.ticket.epoch)
		exec(t, s.old, "update "+s.table+" set n = 2")
	},
	"checked by Bind": func(t *testing.T, s *stage) {
		exec(t, s.old, "begin; update "+s.table+" set n = 2")
		if err := bindCheck(t.Context(), s.old, s.r.writer(33), s.ticket); err != nil {
			t.Fatal(describe(err))
		}
	},
	"not checked yet, by Bind": func(t *testing.T, s *stage) {
		exec(t, s.old, "begin")
		if err := present.prepare(t.Context(), s.old); err != nil {
			t.Fatal(describe(err))
		}
		trace, _ := ask(t, s.old, present.bind(s.ticket), simple("update "+s.table+" set n = 2"))
		traced(t, "present", trace, "2 3 C(UPDATE 1) Z(T)")
	},
}

// I4: the new holder claims and updates the row within its limit and 200 ms,
// which the log tells; the test only asks that it happens.
func TestEvictionFreesRow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		for name, hold := range holding {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				const limit = 100 * time.Millisecond
				s := d.cast(t)
				hold(t, s)
				begin := time.Now()
				exec(t, s.next, "select fence.claim($1, $2, true)", s.r.writer(34), limit)
				exec(t, s.next, "update "+s.table+" set n = 34")
				t.Logf("claimed and updated after %v, with a limit of %v", time.Since(begin).Round(time.Millisecond), limit)
				if _, err := s.old.Exec(t.Context(), "commit"); err == nil {
					t.Error("the old holder's session goes on")
				}
				if got := s.rows(t, s.next, 34); got != 1 {
					t.Errorf("%d rows of 34", got)
				}
			})
		}
	})
}

// I4: without eviction a claim that is blocked fails within its limit and
// names who blocks it; one that is not blocked goes through, and eviction can
// come afterwards.
func TestClaimWithoutEviction(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		for name, hold := range holding {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := d.cast(t)
				hold(t, s)
				begin := time.Now()
				if strings.HasPrefix(name, "not checked yet") {
					claim(t, s.next, s.r.writer(34))
				} else {
					err := fails(t, s.next, "55P03", "select fence.claim($1, '100ms')", s.r.writer(34))
					if !names(err.Detail, s.old) || strings.Contains(err.Detail, "not evictable") {
						t.Errorf("detail does not name pid %d as evictable: %q", s.old.PgConn().PID(), err.Detail)
					}
					t.Logf("refused after %v", time.Since(begin).Round(time.Millisecond))
				}
				exec(t, s.old, "select 1")
				pid := s.old.PgConn().PID()
				if got := query[uint32](t, s.next, "select pid from fence.blockers($1) where evictable and state = 'idle in transaction'", string(s.r)); got != pid {
					t.Errorf("blockers: %d, want %d", got, pid)
				}
				if got := query[uint32](t, s.next, "select fence.evict($1, 34)", string(s.r)); got != pid {
					t.Errorf("evicted %d, want %d", got, pid)
				}
				s.gone(t, s.old)
				exec(t, s.next, "update "+s.table+" set n = 34")
				claim(t, s.next, s.r.writer(34))
			})
		}
	})
}

// Eviction never ends a session of the current epoch, whoever asks for it.
func TestEvictionSparesCurrent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.cast(t)
		holding["not checked yet"](t, s)
		tk := claim(t, s.next, s.r.writer(34))
		checked, present := s.app(t), s.app(t)
		for _, conn := range []*pgx.Conn{checked, present} {
			exec(t, conn, "begin")
			exec(t, conn, presence, tk.seq, tk.epoch)
			s.write(t, conn, 34)
		}
		exec(t, checked, fastCheck, tk.seq, tk.epoch, s.r.writer(34))
		exec(t, s.next, "select fence.claim($1, '0')", s.r.writer(34))
		fails(t, s.next, "TK001", "select fence.claim($1, '0', true)", s.r.writer(33))
		exec(t, s.old, "select 1") // neither of them evicts anybody
		named := list(t, s.next, "select pid::text from fence.blockers($1) order by 1", string(s.r))
		want := []string{strconv.Itoa(int(s.old.PgConn().PID())), strconv.Itoa(int(checked.PgConn().PID()))}
		slices.Sort(want)
		if !slices.Equal(named, want) { // not who is merely present under the current epoch
			t.Errorf("blockers are %q, want %q", named, want)
		}
		got := evicted(t, s.next, s.r, int64(34))
		if !slices.Equal(got, []uint32{s.old.PgConn().PID()}) {
			t.Errorf("evicted %v, want only %d", got, s.old.PgConn().PID())
		}
		exec(t, s.next, "select fence.claim($1, '0', true)", s.r.writer(34)) // again
		// A claim that gives way to its own eviction may have become the older one meanwhile.
		exec(t, s.next, "select fence.make_way($1, 34, 1, '0', true), fence.make_way($1, 33, 1, '0', true)", string(s.r))
		for _, conn := range []*pgx.Conn{checked, present} {
			if !commit(t, conn) {
				t.Error("a current transaction was not committed")
			}
		}
	})
}

func evicted(t *testing.T, conn *pgx.Conn, r resource, below any) []uint32 {
	t.Helper()
	rows, err := conn.Query(t.Context(), "select fence.evict($1, $2)", string(r), below)
	if err != nil {
		t.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[uint32])
	if err != nil {
		t.Fatal(describe(err))
	}
	return pids
}

func TestEvictBelow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.cast(t)
		holding["checked"](t, s)
		for _, below := range []any{nil, int64(-1), int64(0), int64(33)} {
			if got := evicted(t, s.next, s.r, below); len(got) != 0 {
				t.Errorf("below %v: evicted %v", below, got)
			}
		}
		if got := evicted(t, s.next, "nobody knows", int64(99)); len(got) != 0 {
			t.Errorf("evicted %v from an unknown resource", got)
		}
		if got := evicted(t, s.old, s.r, int64(99)); len(got) != 0 {
			t.Errorf("evicted %v, its own session", got)
		}
		if got := evicted(t, s.next, s.r, int64(34)); !slices.Equal(got, []uint32{s.old.PgConn().PID()}) {
			t.Errorf("evicted %v, want %d", got, s.old.PgConn().PID())
		}
	})
}

// A bug that was here: an older claim with evict ended a newer one that was at
// work between its setval and its COMMIT, and went ahead (I3).
func TestEvictionSparesClaimsAtWork(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.cast(t)
		gate, newest := d.open(t), s.app(t)
		const key = 77
		exec(t, gate, "select pg_advisory_lock($1)", key)
		newer := start(t, newest, fmt.Sprintf("begin; select fence.claim('%s'); select pg_advisory_xact_lock(%d); commit", s.r.writer(35), key))
		d.blocked(t, newest)
		mustBe(t, start(t, s.old, "select fence.claim($1, '0', true)", s.r.writer(34)).end(t), "55P03", "the older claim")
		mustBe(t, start(t, d.open(t), "select fence.adopt($1, 'j', '0', true)", string(s.r)).end(t), "55P03", "an adoption")
		if got := evicted(t, s.next, s.r, int64(99)); len(got) != 0 {
			t.Errorf("evicted %v", got)
		}
		exec(t, gate, "select pg_advisory_unlock($1)", key)
		if err := newer.end(t); err != nil {
			t.Errorf("the newer claim: %v", describe(err))
		}
		fails(t, s.old, "TK001", "select fence.claim($1, '0', true)", s.r.writer(34))
	})
}

// Two resources, and two databases, whose sessions must not be taken for each
// other's.
func TestEvictionKeepsToItsResource(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		other := install(t, d.server)
		one, two, far := d.cast(t), d.cast(t), other.cast(t)
		for _, s := range []*stage{far, two, one} {
			exec(t, s.old, "begin")
			exec(t, s.old, presence, s.ticket.seq, s.ticket.epoch)
			exec(t, s.old, "select fence.check($1)", s.r.writer(33))
			// Even if it looked alike lock for lock, but for the database:
			exec(t, far.old, presence, s.ticket.seq, s.ticket.epoch)
		}
		exec(t, one.next, "select fence.claim($1, '0', true)", one.r.writer(34))
		d.gone(t, one.old)
		if got := evicted(t, one.next, one.r, int64(99)); len(got) != 0 {
			t.Errorf("evicted %v", got)
		}
		exec(t, two.old, "commit")
		exec(t, far.old, "commit")
	})
}
