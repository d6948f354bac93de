package migrations_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// form is one way to check a token inside a transaction.
type form struct {
	name  string
	check func(ctx context.Context, conn *pgx.Conn, token string, tk ticket) error
}

var forms = []form{
	{"ticket", func(ctx context.Context, conn *pgx.Conn, token string, tk ticket) error {
		_, err := conn.Exec(ctx, fastCheck, tk.seq, tk.epoch, token)
		return err
	}},
	{"token", func(ctx context.Context, conn *pgx.Conn, token string, _ ticket) error {
		_, err := conn.Exec(ctx, "select fence.check($1)", token)
		return err
	}},
	{"bind", bindCheck},
	{"setting", func(ctx context.Context, conn *pgx.Conn, token string, _ ticket) error {
		_, err := conn.Exec(ctx, "select set_config('fence.token', $1, true), fence.check()", token)
		return err
	}},
}

// stage is a resource with a table that its holders write to: the old one,
// which has claimed 33, and the next, which is about to claim 34.
type stage struct {
	*database
	r         resource
	table     string
	old, next *pgx.Conn
	ticket    ticket // of 33
}

var stages atomic.Int64

func (d *database) stage(t testing.TB) *stage {
	t.Helper()
	name := fmt.Sprintf("stage_%d", stages.Add(1))
	s := &stage{database: d, r: resource(name), table: name, old: d.open(t), next: d.open(t)}
	exec(t, s.old, "create table "+s.table+" (n int)")
	s.ticket = claim(t, s.old, s.r.writer(33))
	return s
}

func (s *stage) begin(t *testing.T, conn *pgx.Conn, level string) {
	t.Helper()
	exec(t, conn, "begin isolation level "+level)
}

func (s *stage) write(t *testing.T, conn *pgx.Conn, n int) {
	t.Helper()
	exec(t, conn, fmt.Sprintf("insert into %s values (%d)", s.table, n))
}

// rows counts the committed rows of number n, as conn sees them now.
func (s *stage) rows(t *testing.T, conn *pgx.Conn, n int) int {
	t.Helper()
	return query[int](t, conn, fmt.Sprintf("select count(*) from %s where n = %d", s.table, n))
}

// commit ends a transaction and tells whether it was committed.
func commit(t *testing.T, conn *pgx.Conn) bool {
	t.Helper()
	tag, err := conn.Exec(t.Context(), "commit")
	if err != nil {
		t.Fatalf("commit: %v", describe(err))
	}
	return tag.String() == "COMMIT"
}

// staleNow makes sure that the old holder gets nothing through any more.
func (s *stage) staleNow(t *testing.T, level string) {
	t.Helper()
	for _, f := range forms {
		s.begin(t, s.old, level)
		s.write(t, s.old, 33)
		mustBe(t, f.check(t.Context(), s.old, s.r.writer(33), s.ticket), "TK001", "a later check by "+f.name)
		if commit(t, s.old) {
			t.Error("a refused transaction was committed")
		}
	}
}

// races runs f for every version, isolation level and form of check.
func races(t *testing.T, f func(t *testing.T, s *stage, level string, f form)) {
	t.Helper()
	each(t, func(t *testing.T, d *database) {
		for _, level := range levels {
			for _, form := range forms {
				t.Run(level+"/"+form.name, func(t *testing.T) {
					t.Parallel()
					f(t, d.stage(t), level, form)
				})
			}
		}
	})
}

// I1: whoever passed a check commits before the claim returns, and the new
// holder sees it (I9).
func TestClaimWaitsForCheckedTransaction(t *testing.T) {
	t.Parallel()
	races(t, func(t *testing.T, s *stage, level string, f form) {
		s.begin(t, s.old, level)
		if err := f.check(t.Context(), s.old, s.r.writer(33), s.ticket); err != nil {
			t.Fatal(describe(err))
		}
		claiming := start(t, s.next, "select fence.claim($1)", s.r.writer(34))
		s.blocked(t, s.next)
		s.write(t, s.old, 33)
		if !commit(t, s.old) {
			t.Fatal("the current holder was not committed (I3)")
		}
		if err := claiming.end(t); err != nil {
			t.Fatal(describe(err))
		}
		s.begin(t, s.next, level)
		if got := s.rows(t, s.next, 33); got != 1 {
			t.Errorf("the new holder sees %d rows of the old one, want 1", got)
		}
		exec(t, s.next, "commit")
		s.staleNow(t, level)
	})
}

// I1: a snapshot, and even a write, from before the claim does not help the
// old holder; nor does the claim wait for it.
func TestCheckAfterClaimIsRefused(t *testing.T) {
	t.Parallel()
	races(t, func(t *testing.T, s *stage, level string, f form) {
		s.begin(t, s.old, level)
		s.write(t, s.old, 33) // takes the snapshot
		tk := claim(t, s.next, s.r.writer(34))
		mustBe(t, f.check(t.Context(), s.old, s.r.writer(33), s.ticket), "TK001", "check")
		if commit(t, s.old) {
			t.Error("a stale write was committed")
		}
		if got := s.rows(t, s.next, 33); got != 0 {
			t.Errorf("%d stale rows", got)
		}
		s.begin(t, s.next, level)
		s.write(t, s.next, 34)
		if err := f.check(t.Context(), s.next, s.r.writer(34), tk); err != nil {
			t.Errorf("the current holder is refused (I3): %v", describe(err))
		}
		if !commit(t, s.next) {
			t.Error("the current holder was not committed")
		}
	})
}

// I1: a check that arrives while a claim is under way waits, and then decides
// by what became of the claim.
func TestCheckBehindOpenClaim(t *testing.T) {
	t.Parallel()
	for _, outcome := range []string{"commit", "rollback"} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			races(t, func(t *testing.T, s *stage, level string, f form) {
				s.begin(t, s.old, level)
				s.write(t, s.old, 33)
				exec(t, s.next, "begin")
				lost := claim(t, s.next, s.r.writer(34))
				checked := make(chan error, 1)
				go func() { checked <- f.check(t.Context(), s.old, s.r.writer(33), s.ticket) }()
				s.blocked(t, s.old)
				exec(t, s.next, outcome)
				err := (&call{checked}).end(t)
				if outcome == "commit" {
					mustBe(t, err, "TK001", "check")
				} else if err != nil {
					t.Errorf("the current holder is refused (I3): %v", describe(err))
				}
				if committed := commit(t, s.old); committed != (outcome == "rollback") {
					t.Errorf("committed: %t", committed)
				}
				if outcome == "rollback" {
					mustBe(t, f.check(t.Context(), s.next, s.r.writer(34), lost), "TK004", "the ticket of a claim that was rolled back")
					if again := claim(t, s.next, s.r.writer(34)); again.epoch == lost.epoch {
						t.Error("the epoch of a claim that was rolled back came back")
					}
					mustBe(t, f.check(t.Context(), s.old, s.r.writer(33), lost), "TK001", "the ticket of a claim that was rolled back")
				}
			})
		})
	}
}

// A claim inside a savepoint that is rolled back leaves no ticket that passes.
func TestClaimRolledBackToSavepoint(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		exec(t, s.next, "begin; savepoint before")
		lost := claim(t, s.next, s.r.writer(34))
		exec(t, s.next, "rollback to before")
		s.write(t, s.next, 34)
		mustBe(t, forms[0].check(t.Context(), s.next, s.r.writer(34), lost), "TK004", "check by ticket")
		if commit(t, s.next) {
			t.Error("an unclaimed write was committed")
		}
		if m := markOf(t, s.old, s.r); m.Writer != 33 {
			t.Errorf("mark is %+v", m)
		}
		for _, f := range forms {
			if err := f.check(t.Context(), s.old, s.r.writer(33), s.ticket); err != nil {
				t.Errorf("the current holder is refused (I3): %v", describe(err))
			}
		}
	})
}
