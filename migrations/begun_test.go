package migrations_test

import (
	"fmt"
	"testing"
)

// protected makes a table that takes writes under a token for the resource
// only, by whoever has the setting fence.token.
func (s *stage) protected(t *testing.T) {
	t.Helper()
	exec(t, s.old, "select fence.protect($1, $2)", s.table, string(s.r))
}

// I9: token 34 is granted, and its session reads in a block before anybody has
// claimed it. 33 commits, 34 is claimed elsewhere, and the first session now
// writes with a perfectly current token, what it made of the old state. It
// must not commit.
func TestReadBeforeClaimIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		for _, level := range levels {
			t.Run(level, func(t *testing.T) {
				t.Parallel()
				s := d.stage(t)
				s.protected(t)
				elsewhere := d.open(t)
				exec(t, s.next, fmt.Sprintf("set fence.token = '%s'", s.r.writer(34)))
				s.begin(t, s.next, level)
				if got := s.rows(t, s.next, 33); got != 0 {
					t.Fatalf("%d rows", got)
				}
				exec(t, s.old, fmt.Sprintf("set fence.token = '%s'", s.r.writer(33)))
				s.write(t, s.old, 33)
				claim(t, elsewhere, s.r.writer(34))
				_, err := s.next.Exec(t.Context(), "insert into "+s.table+" values (34)")
				mustBe(t, err, refusedBegun(level), "write after a read that was before the claim")
				if commit(t, s.next) {
					t.Error("committed")
				}
				s.begin(t, s.next, level)
				s.write(t, s.next, 34)
				if !commit(t, s.next) {
					t.Error("the transaction after it is refused (I3)")
				}
			})
		}
	})
}

// refusedBegun is how a check refuses a transaction that is older than the
// claim: 40001 if not even its snapshot knows of the claim.
func refusedBegun(level string) string {
	if level == "read committed" {
		return "TK004"
	}
	return "40001"
}

// I9: a transaction that was begun before the claim is refused even if it took
// its snapshot afterwards, and so is the one that claims.
func TestTransactionOlderThanClaimIsRefused(t *testing.T) {
	t.Parallel()
	races(t, func(t *testing.T, s *stage, level string, f form) {
		if f.name == "ticket" {
			return // whoever has the ticket has seen the claim return before BEGIN
		}
		s.begin(t, s.next, level)
		claim(t, s.old, s.r.writer(34))
		s.write(t, s.next, 34)
		mustBe(t, f.check(t.Context(), s.next, s.r.writer(34), ticket{}), "TK004", "check in a transaction older than the claim")
		exec(t, s.next, "rollback")
		claim(t, s.old, s.r.writer(34)) // again, which changes nothing
		s.begin(t, s.next, level)
		if err := f.check(t.Context(), s.next, s.r.writer(34), ticket{}); err != nil {
			t.Error(describe(err))
		}
		exec(t, s.next, "rollback")
		if level == "read committed" {
			s.begin(t, s.next, level)
			claim(t, s.next, s.r.writer(35))
			mustBe(t, f.check(t.Context(), s.next, s.r.writer(35), ticket{}), "TK004", "check in the transaction of the claim")
			exec(t, s.next, "rollback")
		}
	})
}

// I9: claim and write in one transaction, each way to put them into one.
func TestClaimAndWriteInOneTransactionIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		s.protected(t)
		token := s.r.writer(34)
		exec(t, s.next, fmt.Sprintf("set fence.token = '%s'", token))
		for name, sql := range map[string]string{
			"one message":   fmt.Sprintf("select fence.claim('%s'); insert into %s values (34)", token, s.table),
			"a block":       fmt.Sprintf("begin; select fence.claim('%s'); insert into %s values (34); commit", token, s.table),
			"a DO":          fmt.Sprintf("do $$ begin perform fence.claim('%s'); insert into %s values (34); end $$", token, s.table),
			"one statement": fmt.Sprintf("insert into %s select 34 from fence.claim('%s')", s.table, token),
		} {
			_, err := s.next.Exec(t.Context(), sql)
			mustBe(t, err, "TK004", name)
			exec(t, s.next, "rollback")
		}
		if m := markOf(t, s.old, s.r); m.Writer != 33 {
			t.Errorf("mark is %+v", m)
		}
		exec(t, s.next, fmt.Sprintf("do $$ begin perform fence.claim('%s'); commit; insert into %s values (34); end $$", token, s.table))
		if got := s.rows(t, s.next, 34); got != 1 {
			t.Errorf("%d rows", got)
		}
	})
}

// fence.claim and fence.adopt stand in transactions of their own.
func TestClaimNeedsItsOwnTransaction(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		for _, sql := range []string{
			fmt.Sprintf("select fence.claim('%s')", s.r.writer(34)),
			fmt.Sprintf("select fence.claim('%s')", s.r.writer(33)), // also if there is nothing to do
			fmt.Sprintf("select fence.adopt('%s', 'j')", s.r),
		} {
			for _, level := range levels[1:] {
				s.begin(t, s.next, level)
				fails(t, s.next, "TK007", sql)
				exec(t, s.next, "rollback")
			}
			exec(t, s.next, "begin")
			s.write(t, s.next, 1)
			fails(t, s.next, "TK007", sql)
			exec(t, s.next, "rollback")
		}
		s.begin(t, s.next, "serializable")
		fails(t, s.next, "TK007", "select fence.evict($1, 34)", string(s.r))
		exec(t, s.next, "rollback")
		s.begin(t, s.next, "read uncommitted")
		claim(t, s.next, s.r.writer(34))
		exec(t, s.next, "rollback")
	})
}

// A transaction that began before a reader's claim is refused as well, and a
// further reader's claim leaves the others' transactions alone.
func TestReadersAndBegun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		for _, level := range levels {
			s := d.stage(t)
			s.begin(t, s.next, level)
			s.rows(t, s.next, 33)
			claim(t, s.old, s.r.reader(34))
			_, err := s.next.Exec(t.Context(), "select fence.check($1)", s.r.reader(34))
			mustBe(t, err, refusedBegun(level), level)
			exec(t, s.next, "rollback")
			s.begin(t, s.next, level)
			s.rows(t, s.next, 33)
			claim(t, s.old, s.r.reader(35))
			exec(t, s.next, "select fence.check($1)", s.r.reader(34))
			exec(t, s.next, "commit")
		}
	})
}

// With a clock that was set back after the claim, which is a mark whose time
// lies ahead, a transaction says by its presence that it knew of the claim.
func TestPresenceCountsMoreThanTheClock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		s.protected(t)
		old, token := s.ticket, s.r.writer(34)
		tk := claim(t, s.old, token)
		exec(t, s.old, "update fence.marks set since = since + interval '1 h' where resource = $1", string(s.r))
		exec(t, s.next, fmt.Sprintf("set fence.token = '%s'", token))
		for _, level := range levels {
			s.begin(t, s.next, level)
			fails(t, s.next, "TK004", "insert into "+s.table+" values (34)")
			exec(t, s.next, "rollback")
			s.begin(t, s.next, level)
			exec(t, s.next, presence, old.seq, old.epoch)
			fails(t, s.next, "TK004", "select fence.check()")
			exec(t, s.next, "rollback")
			s.begin(t, s.next, level)
			exec(t, s.next, presence, tk.seq, tk.epoch)
			s.write(t, s.next, 34)
			exec(t, s.next, "select fence.check(), fence.check($1)", token)
			if !commit(t, s.next) {
				t.Errorf("%s: not committed", level)
			}
		}
	})
}
