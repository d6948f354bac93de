package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// A lock that a check took inside a savepoint outlives its ROLLBACK TO: what is
// written afterwards is still under it.
func TestCheckSurvivesSavepoint(t *testing.T) {
	t.Parallel()
	wraps := map[string][2]string{
		"rolled back":             {"savepoint s", "rollback to s"},
		"rolled back, nested":     {"savepoint a; savepoint b", "rollback to a"},
		"released":                {"savepoint s", "release s"},
		"released, rolled back":   {"savepoint a; savepoint b", "release b; rollback to a"},
		"discarded sequences too": {"savepoint s", "rollback to s; discard sequences"},
	}
	for name, wrap := range wraps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			races(t, func(t *testing.T, s *stage, level string, f form) {
				s.begin(t, s.old, level)
				exec(t, s.old, wrap[0])
				if err := f.check(t.Context(), s.old, s.r.writer(33), s.ticket); err != nil {
					t.Fatal(describe(err))
				}
				exec(t, s.old, wrap[1])
				s.write(t, s.old, 33)
				claiming := start(t, s.next, "select fence.claim($1)", s.r.writer(34))
				s.blocked(t, s.next)
				if !commit(t, s.old) {
					t.Error("not committed")
				}
				if err := claiming.end(t); err != nil {
					t.Fatal(describe(err))
				}
				if got := s.rows(t, s.next, 33); got != 1 {
					t.Errorf("the new holder sees %d rows, want 1", got)
				}
				s.staleNow(t, level)
			})
		})
	}
}

// The same in a block of PL/pgSQL that catches an error, which is a savepoint
// too.
func TestCheckSurvivesCaughtError(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		exec(t, s.old, "begin")
		exec(t, s.old, `do $$ begin
			perform fence.check('`+s.r.writer(33)+`');
			raise division_by_zero;
		exception when division_by_zero then null; end $$`)
		s.write(t, s.old, 33)
		claiming := start(t, s.next, "select fence.claim($1)", s.r.writer(34))
		s.blocked(t, s.next)
		exec(t, s.old, "commit")
		if err := claiming.end(t); err != nil {
			t.Fatal(describe(err))
		}
		if got := s.rows(t, s.next, 33); got != 1 {
			t.Errorf("the new holder sees %d rows, want 1", got)
		}
	})
}

// I3: 32 first transactions of a new token at once, each of which claims it as
// a worker of its own does: all go through, without a deadlock.
func TestFirstTransactionsOfNewToken(t *testing.T) {
	t.Parallel()
	races(t, func(t *testing.T, s *stage, level string, f form) {
		s.begin(t, s.old, level)
		if err := f.check(t.Context(), s.old, s.r.writer(33), s.ticket); err != nil {
			t.Fatal(describe(err))
		}
		workers := 32
		if f.name != "ticket" {
			workers = 8 // connections are what takes time
		}
		conns := make([]*pgx.Conn, workers)
		for i := range conns {
			conns[i] = s.open(t)
		}
		var group errgroup.Group
		for _, conn := range conns {
			group.Go(func() error {
				tk, err := tryClaim(t.Context(), conn, s.r.writer(34))
				if err != nil {
					return err
				}
				if _, err := conn.Exec(t.Context(), "begin isolation level "+level); err != nil {
					return err
				}
				if _, err := conn.Exec(t.Context(), "insert into "+s.table+" values (34)"); err != nil {
					return err
				}
				if err := f.check(t.Context(), conn, s.r.writer(34), tk); err != nil {
					return err
				}
				_, err = conn.Exec(t.Context(), "commit")
				return err
			})
		}
		s.blocked(t, conns[workers-1])
		exec(t, s.old, "commit")
		if err := group.Wait(); err != nil {
			t.Errorf("a first transaction failed: %v", describe(err))
		}
		if got := s.rows(t, s.old, 34); got != workers {
			t.Errorf("%d rows, want %d", got, workers)
		}
		s.staleNow(t, level)
	})
}

// Two checked transactions that wait for each other's row and check are no
// deadlock that a client could see, though a claim stands between them.
func TestClaimBetweenTwoWriters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		s.write(t, s.old, 1)
		second := d.open(t)
		exec(t, s.old, "begin")
		exec(t, s.old, "select fence.check($1)", s.r.writer(33))
		exec(t, second, "begin")
		exec(t, second, "update "+s.table+" set n = 2")
		row := start(t, s.old, "update "+s.table+" set n = 3") // waits for second
		s.blocked(t, s.old)
		claiming := start(t, s.next, "select fence.claim($1)", s.r.writer(34)) // waits for old
		s.blocked(t, s.next)
		exec(t, second, "select fence.check($1)", s.r.writer(33)) // queued behind the claim
		exec(t, second, "commit")
		if err := row.end(t); err != nil {
			t.Fatal(describe(err))
		}
		exec(t, s.old, "commit")
		if err := claiming.end(t); err != nil {
			t.Fatal(describe(err))
		}
	})
}
