package migrations_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/guard"
)

// I6: nobody lowers, deletes or truncates a mark, or an entry of the log, not
// even a superuser by plain statements.
func TestMarksNeverGoDown(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.open(t)
		claim(t, conn, resource("r").writer(34))
		claim(t, conn, resource("r").reader(35))
		claim(t, conn, resource("q").writer(1))
		exec(t, conn, "select fence.adopt('q', 'j')")
		statements := []string{
			"delete from fence.marks", "delete from fence.marks where resource = 'r'", "truncate fence.marks", "truncate fence.marks cascade",
			"delete from fence.adoptions", "truncate fence.adoptions", "update fence.adoptions set writer = 0",
			"update fence.adoptions set adopted_by = 'nobody'",
			"insert into fence.marks (resource) values ('r') on conflict (resource) do update set writer = 0",
			"with d as (delete from fence.marks returning *) select count(*) from d",
			"do $$ begin update fence.marks set writer = 1 where resource = 'r'; end $$",
		}
		for _, change := range []string{
			"writer = 33", "writer = 0", "reader = 34", "reader = 0", "holder = 'other'", "holder = ''", "issuer = 'j'", "issuer = ''",
			"generation = 1", "generation = -1", "generation = 1, writer = 0, reader = 0, issuer = 'j'", "resource = 'elsewhere'",
			"id = default", "writer = null", "reader = null", "writer = 35, reader = 34", "writer = 35, issuer = 'j'",
		} {
			statements = append(statements, "update fence.marks set "+change+" where resource = 'r'")
		}
		if d.server.Major() >= 15 {
			statements = append(statements, "merge into fence.marks m using (select 1) s on m.resource = 'r' when matched then delete")
		}
		want := guard.Mark{Writer: 34, Holder: "h34", Reader: 35, Issuer: "i"}
		for _, role := range []string{"origin", "replica"} {
			exec(t, conn, "set session_replication_role = "+role)
			for _, sql := range statements {
				if _, err := conn.Exec(t.Context(), sql); err == nil {
					t.Errorf("%s, %s: no error", role, sql)
				}
				if got := markOf(t, conn, "r"); got != want {
					t.Fatalf("%s, %s: mark is %+v", role, sql, got)
				}
			}
		}
		if n := query[int](t, conn, "select count(*) from fence.adoptions"); n != 1 {
			t.Errorf("the log has %d entries", n)
		}
		claim(t, conn, resource("r").writer(36))
	})
}

// Whoever tampers with the sequence, which a superuser can, or with the row's
// epoch, makes checks fail, not pass; the next claim mends it.
func TestTamperingFailsClosed(t *testing.T) {
	t.Parallel()
	tamperings := map[string]string{
		"sequence set back":  "select setval('fence.s_' || id, 0) from fence.marks where resource = '%s'",
		"sequence advanced":  "select nextval('fence.s_' || id) from fence.marks where resource = '%s'",
		"sequence restarted": "do $$ begin execute (select format('alter sequence fence.s_%%s restart', id) from fence.marks where resource = '%s'); end $$",
		"sequence dropped":   "do $$ begin execute (select format('drop sequence fence.s_%%s', id) from fence.marks where resource = '%s'); end $$",
		"row's epoch":        "update fence.marks set epoch = 7 where resource = '%s'",
	}
	each(t, func(t *testing.T, d *database) {
		for name, sql := range tamperings {
			s := d.stage(t)
			tk := claim(t, s.next, s.r.writer(34))
			exec(t, s.next, fmt.Sprintf(sql, s.r))
			for _, level := range levels {
				for token, want := range map[string]map[string]bool{
					s.r.writer(33): {"TK001": true},
					s.r.writer(34): {"TK004": level == "read committed", "TK001": level != "read committed"},
				} {
					for _, form := range forms[1:] {
						if form.name == "bind" && (name == "row's epoch" || name == "sequence dropped") {
							continue // looks at the ticket first, as that form does
						}
						s.begin(t, s.old, level)
						err := form.check(t.Context(), s.old, token, tk)
						if !want[stateOf(err)] {
							t.Errorf("%s, %s: check of %s by %s: %v", name, level, token, form.name, describe(err))
						}
						exec(t, s.old, "rollback")
					}
				}
			}
			if name != "row's epoch" {
				if _, err := s.old.Exec(t.Context(), fastCheck, tk.seq, tk.epoch, s.r.writer(34)); err == nil {
					t.Errorf("%s: the ticket of before passes", name)
				}
			}
			fails(t, s.next, "TK001", "select fence.claim($1)", s.r.writer(33))
			again := claim(t, s.next, s.r.writer(34))
			if again.epoch == tk.epoch {
				t.Errorf("%s: the epoch is the one of before", name)
			}
			for _, form := range forms {
				if err := form.check(t.Context(), s.old, s.r.writer(34), again); err != nil {
					t.Errorf("%s: the current holder is refused (I3): %v", name, describe(err))
				}
				state := "TK001"
				if name == "sequence dropped" && (form.name == "ticket" || form.name == "bind") {
					state = "XX000" // no such relation
				}
				mustBe(t, form.check(t.Context(), s.old, s.r.writer(33), s.ticket), state, name)
			}
		}
	})
}

// A bug that was here: a claim gives the sequence a new file while others may
// read the old one, and whoever read it at that moment got "could not read
// block 0". A claim of the current token must not (I3).
func TestClaimAgainDuringOtherClaims(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var group errgroup.Group
		group.Go(func() error {
			for n := int64(34); ctx.Err() == nil; n++ {
				if _, err := tryClaim(t.Context(), s.next, s.r.writer(n)); err != nil {
					return err
				}
			}
			return nil
		})
		for range 3 {
			conn := d.open(t)
			group.Go(func() error {
				for ctx.Err() == nil {
					if _, err := conn.Exec(t.Context(), "select fence.in_step(m) from fence.marks m"); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Error(describe(err))
		}
	})
}
