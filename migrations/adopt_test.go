package migrations_test

import (
	"fmt"
	"strings"
	"testing"
)

// of is a token of another issuer.
func (r resource) of(issuer string, n int64) string {
	return strings.Replace(r.writer(n), ":i:", ":"+issuer+":", 1)
}

// From an adoption on the old issuer's tokens and tickets are refused, however
// high, and it never comes back: A→B→A included.
func TestAdoptEndsOldIssuer(t *testing.T) {
	t.Parallel()
	races(t, func(t *testing.T, s *stage, level string, f form) {
		exec(t, s.next, "select fence.adopt($1, 'j')", string(s.r))
		for i, issuer := range []string{"j", "k"} {
			s.begin(t, s.old, level)
			s.write(t, s.old, 33)
			mustBe(t, f.check(t.Context(), s.old, s.r.writer(33), s.ticket), "TK003", "old token")
			exec(t, s.old, "rollback")
			fails(t, s.old, "TK003", "select fence.claim($1)", s.r.writer(99))
			fails(t, s.next, "TK003", "select fence.adopt($1, 'i')", string(s.r))
			mustBe(t, f.check(t.Context(), s.next, s.r.of(issuer, 1), s.ticket), "TK004", "the new issuer's token, with the old ticket")
			tk := claim(t, s.next, s.r.of(issuer, 1))
			if tk.epoch == s.ticket.epoch {
				t.Error("an epoch came back")
			}
			s.begin(t, s.next, level)
			if err := f.check(t.Context(), s.next, s.r.of(issuer, 1), tk); err != nil {
				t.Errorf("the current holder is refused (I3): %v", describe(err))
			}
			exec(t, s.next, "commit")
			if i == 0 {
				exec(t, s.next, "select fence.adopt($1, 'k')", string(s.r))
				fails(t, s.next, "TK003", "select fence.adopt($1, 'j')", string(s.r))
				mustBe(t, f.check(t.Context(), s.next, s.r.of("j", 1), tk), "TK003", "the ticket of the issuer between")
			}
		}
	})
}

// An adoption waits for checked transactions, and ends them, as a claim does.
func TestAdoptWaitsAndEvicts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		for name, hold := range holding {
			s := d.cast(t)
			hold(t, s)
			if !strings.HasPrefix(name, "not checked yet") {
				err := fails(t, s.next, "55P03", "select fence.adopt($1, 'j', '20ms')", string(s.r))
				if !names(err.Detail, s.old) {
					t.Errorf("%s: detail does not name it: %q", name, err.Detail)
				}
				if m := markOf(t, s.next, s.r); m.Generation != 0 {
					t.Errorf("%s: mark is %+v", name, m)
				}
			}
			exec(t, s.next, "select fence.adopt($1, 'j', '20ms', true)", string(s.r))
			exec(t, s.next, "update "+s.table+" set n = 34")
			s.gone(t, s.old)
		}
		s := d.cast(t)
		exec(t, s.old, "begin")
		claim(t, s.old, s.r.writer(34))
		err := fails(t, s.next, "55P03", "select fence.adopt($1, 'j', '20ms')", string(s.r))
		if !names(err.Detail, s.old) {
			t.Errorf("detail does not name the open claim: %q", err.Detail)
		}
		exec(t, s.next, "select fence.adopt($1, 'j', '100ms', true)", string(s.r))
	})
}

// The new issuer's holder whose transaction has a snapshot of before the
// adoption is told to try again, not that it is foreign.
func TestSnapshotOlderThanAdoption(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		for _, level := range levels[1:] {
			for _, f := range forms[1:] {
				s := d.stage(t)
				s.begin(t, s.old, level)
				s.rows(t, s.old, 33)
				exec(t, s.next, "select fence.adopt($1, 'j')", string(s.r))
				claim(t, s.next, s.r.of("j", 1))
				mustBe(t, f.check(t.Context(), s.old, s.r.of("j", 1), ticket{}), "40001", level)
				exec(t, s.old, "rollback")
				s.begin(t, s.old, level)
				if err := f.check(t.Context(), s.old, s.r.of("j", 1), ticket{}); err != nil {
					t.Error(describe(err))
				}
				exec(t, s.old, "rollback")
			}
		}
	})
}

// An adoption frees a resource that a token of the highest number poisoned.
func TestAdoptFreesPoisoned(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.open(t)
		r := resource("r")
		claim(t, conn, r.writer(1<<63-1))
		fails(t, conn, "TK001", "select fence.claim($1)", r.writer(1<<63-2))
		fails(t, conn, "TK001", "select fence.claim($1)", r.reader(1<<63-2))
		exec(t, conn, "select fence.adopt('r', 'j')")
		claim(t, conn, r.of("j", 1))
		for _, bad := range []string{"a b", "j:k", "é", strings.Repeat("j", 65), "j\n"} {
			fails(t, conn, "TK006", "select fence.adopt('r', $1)", bad)
		}
		for sql, state := range map[string]string{
			"fence.adopt('r', null)": "TK006", "fence.adopt(null, 'k')": "TK006", "fence.adopt('', 'k')": "TK006",
			"fence.adopt(repeat('r', 256), 'k')": "TK006", "fence.adopt(E'a\\tb', 'k')": "TK006",
		} {
			fails(t, conn, state, "select "+sql)
		}
		if n := query[int](t, conn, "select count(*) from fence.adoptions"); n != 1 {
			t.Errorf("the log has %d entries", n)
		}
	})
}

// An adoption that is rolled back has not happened.
func TestAdoptRolledBack(t *testing.T) {
	t.Parallel()
	races(t, func(t *testing.T, s *stage, level string, f form) {
		exec(t, s.next, fmt.Sprintf("begin; select fence.adopt('%s', 'j')", s.r))
		s.begin(t, s.old, level)
		s.write(t, s.old, 33)
		checked := make(chan error, 1)
		go func() { checked <- f.check(t.Context(), s.old, s.r.writer(33), s.ticket) }()
		s.blocked(t, s.old)
		exec(t, s.next, "rollback")
		if err := (&call{checked}).end(t); err != nil {
			t.Errorf("the current holder is refused (I3): %v", describe(err))
		}
		exec(t, s.old, "commit")
		fails(t, s.next, "TK003", "select fence.claim($1)", s.r.of("j", 99))
		if n := query[int](t, s.next, "select count(*) from fence.adoptions where resource = $1", string(s.r)); n != 0 {
			t.Errorf("the log has %d entries", n)
		}
	})
}
