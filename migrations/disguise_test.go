package migrations_test

import (
	"fmt"
	"testing"
)

// disguises are ways to end a transaction that has written as if it had not.
// %[1]s is the write.
var disguises = map[string]string{
	"none":                                   "begin; %[1]s; commit",
	"read only afterwards":                   "begin; %[1]s; set transaction read only; commit",
	"token unset afterwards":                 "begin; %[1]s; set local fence.token = ''; commit",
	"token reset afterwards":                 "begin; %[1]s; reset fence.token; commit",
	"savepoint released":                     "begin; savepoint s; %[1]s; release s; commit",
	"savepoint rolled back, and once more":   "begin; savepoint s; %[1]s; rollback to s; %[1]s; commit",
	"in a subtransaction that fails, caught": "do $$ begin begin %[1]s; raise division_by_zero; exception when division_by_zero then null; end; %[1]s; end $$",
	"chained":                                "begin; %[1]s; commit and chain; commit",
}

// With a stale, a shared, an unclaimed or no token, no disguise gets a write
// into a protected table; with the current one, each does.
func TestDisguisesAtProtectedTable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s, readers := d.stage(t), d.stage(t)
		s.protected(t)
		readers.protected(t)
		claim(t, s.old, s.r.writer(34))
		claim(t, s.old, readers.r.reader(34))
		for _, c := range []struct {
			at    *stage
			token string
			state string
		}{
			{s, s.r.writer(33), "TK001"},
			{s, s.r.writer(35), "TK004"},
			{s, "", "TK005"},
			{readers, readers.r.reader(34), "TK008"},
			{s, s.r.writer(34), ""},
		} {
			conn := d.open(t)
			for name, sql := range disguises {
				for _, level := range levels {
					before := query[int](t, conn, "select count(*) from "+c.at.table)
					exec(t, conn, "set default_transaction_isolation = '"+level+"'")
					exec(t, conn, "select set_config('fence.token', $1, false)", c.token)
					_, err := conn.Exec(t.Context(), fmt.Sprintf(sql, "insert into "+c.at.table+" values (1)"))
					if got := stateOf(err); got != c.state {
						t.Errorf("%s, %s, %q: %v, want %q", name, level, c.token, describe(err), c.state)
					}
					_, _ = conn.Exec(t.Context(), "commit")
					rows := query[int](t, conn, "select count(*) from "+c.at.table)
					if written := rows > before; written != (c.state == "") {
						t.Errorf("%s, %s, %q: %d rows, %d before", name, level, c.token, rows, before)
					}
				}
			}
		}
	})
}

// The same for whoever puts fence.check() last in a transaction on a table
// that is not protected, as the library does.
func TestDisguisesBeforeCheck(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s, readers := d.stage(t), d.stage(t)
		claim(t, s.old, s.r.writer(34))
		claim(t, s.old, readers.r.reader(34))
		conn := d.open(t)
		for _, c := range []struct{ name, sql, token, state string }{
			{"read only, stale", "insert into %s values (1); set transaction read only", s.r.writer(33), "TK001"},
			{"read only, shared", "insert into %s values (1); set transaction read only", readers.r.reader(34), "TK008"},
			{"read only, none", "insert into %s values (1); set transaction read only", "", "TK005"},
			{"read only, current", "insert into %s values (1); set transaction read only", s.r.writer(34), ""},
			{"unset", "insert into %s values (1); set local fence.token = ''", s.r.writer(34), "TK005"},
			{"savepoint, stale", "savepoint s; insert into %s values (1); rollback to s", s.r.writer(33), "TK001"},
			{"savepoint, shared", "savepoint s; insert into %s values (1); release s", readers.r.reader(34), "TK008"},
			{"lock of a row, shared", "select from %s for update; select txid_current()", readers.r.reader(34), "TK008"},
			{"read, shared", "select from %s", readers.r.reader(34), ""},
			{"read, stale", "select from %s", s.r.writer(33), "TK001"},
		} {
			for _, level := range levels {
				s.begin(t, conn, level)
				exec(t, conn, "select set_config('fence.token', $1, true)", c.token)
				exec(t, conn, fmt.Sprintf(c.sql, s.table))
				_, err := conn.Exec(t.Context(), "select fence.check()")
				if got := stateOf(err); got != c.state {
					t.Errorf("%s, %s: %v, want %q", c.name, level, describe(err), c.state)
				}
				if c.state == "" {
					exec(t, conn, "commit")
				} else if commit(t, conn) {
					t.Errorf("%s, %s: committed", c.name, level)
				}
			}
		}
	})
}

// The trigger's memo that it has checked goes with the savepoint; the lock
// does not, so the claim waits all the same.
func TestProtectedWriteAroundSavepoint(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		s.protected(t)
		exec(t, s.old, "select set_config('fence.token', $1, false)", s.r.writer(33))
		exec(t, s.old, "begin; savepoint s")
		s.write(t, s.old, 1)
		exec(t, s.old, "rollback to s")
		claiming := start(t, s.next, "select fence.claim($1)", s.r.writer(34))
		s.blocked(t, s.next)
		s.write(t, s.old, 33)
		exec(t, s.old, "set local time zone 'Asia/Tokyo'; set local datestyle = 'German'")
		s.write(t, s.old, 33)
		exec(t, s.old, "select set_config('fence.token', $1, true)", s.r.writer(32))
		exec(t, s.old, "savepoint t")
		fails(t, s.old, "TK001", "insert into "+s.table+" values (33)") // another token is another matter
		exec(t, s.old, "rollback to t; commit")
		if err := claiming.end(t); err != nil {
			t.Fatal(describe(err))
		}
		if got := s.rows(t, s.next, 33); got != 2 {
			t.Errorf("the new holder sees %d rows, want 2", got)
		}
		fails(t, s.old, "TK001", "insert into "+s.table+" values (33)")
	})
}

// The memo must not outlive its transaction, nor count for another resource.
func TestProtectedMemo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s, other := d.stage(t), d.stage(t)
		s.protected(t)
		other.protected(t)
		both := s.r.writer(33) + "," + other.r.writer(33)
		exec(t, s.old, "select set_config('fence.token', $1, false)", both)
		s.write(t, s.old, 1)
		claim(t, s.next, s.r.writer(34))
		fails(t, s.old, "TK001", "insert into "+s.table+" values (1)")
		exec(t, s.old, "begin")
		other.write(t, s.old, 1)
		fails(t, s.old, "TK001", "insert into "+s.table+" values (1)")
		exec(t, s.old, "rollback")
		// From one transaction to the next in a procedure, which has no BEGIN.
		claim(t, s.next, s.r.writer(35))
		exec(t, s.old, "select set_config('fence.token', $1, false)", s.r.writer(35))
		exec(t, s.old, "create procedure twice() language plpgsql as 'begin insert into "+s.table+" values (1); commit; perform pg_advisory_lock(5); insert into "+s.table+" values (1); end'")
		exec(t, s.next, "select pg_advisory_lock(5)")
		calling := start(t, s.old, "call twice()")
		s.blocked(t, s.old)
		claim(t, s.next, s.r.writer(36))
		exec(t, s.next, "select pg_advisory_unlock(5)")
		mustBe(t, calling.end(t), "TK001", "a procedure's second transaction")
	})
}
