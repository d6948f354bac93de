package migrations_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// carried are what fence.token can be, and what a transaction under it may do.
type carried struct {
	name   string
	tokens string // of the resources a and b, which 33 has claimed
	unset  string // a statement that leaves no token
	enter  string // SQLSTATE
	reads  bool   // may only read
	leave  string // SQLSTATE of a transaction that has written nevertheless
}

func carriers(a, b resource, policy string) []carried {
	none := carried{enter: "", reads: policy == "read-only", leave: "TK005"}
	switch policy {
	case "deny":
		none.enter = "TK005"
	case "allow":
		none.leave = ""
	}
	without := func(name, unset string) carried {
		c := none
		c.name, c.unset = name, unset
		return c
	}
	x, y, shared := a.writer(33), b.writer(33), b.reader(34)
	return []carried{
		without("never set", ""),
		without("reset", "set fence.token = 'x'; reset fence.token"),
		without("empty", "set fence.token = ''"),
		without("empty since a transaction ended", "begin; set local fence.token = 'x'; commit"),
		{name: "exclusive", tokens: x},
		{name: "list", tokens: x + "," + y},
		{name: "shared", tokens: shared, reads: true, leave: "TK008"},
		{name: "mixed list", tokens: x + "," + shared, reads: true, leave: "TK008"},
		{name: "mixed list, the other way round", tokens: shared + "," + x, reads: true, leave: "TK008"},
		{name: "stale", tokens: a.writer(32), enter: "TK001", leave: "TK001"},
		{name: "one of a list stale", tokens: x + "," + b.writer(32), enter: "TK001", leave: "TK001"},
		{name: "unclaimed", tokens: a.writer(99), enter: "TK004", leave: "TK004"},
		{name: "malformed", tokens: "x", enter: "TK006", leave: "TK006"},
		{name: "malformed list", tokens: x + ",", enter: "TK006", leave: "TK006"},
		{name: "two of one resource", tokens: x + "," + a.writer(32), enter: "TK006", leave: "TK006"},
	}
}

// I5: with and without tokens, under each policy, in each state of a
// transaction, whatever the order of what it does.
func TestEnterAndLeave(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		for _, policy := range []string{"read-only", "deny", "allow"} {
			t.Run(policy, func(t *testing.T) {
				t.Parallel()
				s := d.proxied(t)
				other := s.r + "-b"
				claim(t, s.next, other.writer(33))
				claim(t, s.next, other.reader(34))
				for _, c := range carriers(s.r, other, policy) {
					if c.name == "list" || c.name == "one of a list stale" {
						continue // b has moved on to readers
					}
					c.play(t, s, policy)
				}
				fresh := resource(string(s.r) + "-c") // no reader came there
				claim(t, s.next, fresh.writer(33))
				for _, c := range carriers(s.r, fresh, policy) {
					if c.name == "list" || c.name == "one of a list stale" {
						c.play(t, s, policy)
					}
				}
			})
		}
	})
}

func (c carried) play(t *testing.T, s *stage, policy string) {
	t.Helper()
	conn := connect(t, s.url)
	defer conn.Close(t.Context())
	ready(t, conn)
	if c.unset != "" {
		exec(t, conn, c.unset)
	}
	if c.tokens != "" {
		carry(t, conn, c.tokens)
	}
	insert := simple("insert into " + s.table + " values (33)")
	is := func(what, state, want string, messages ...pgproto3.FrontendMessage) {
		t.Helper()
		if state != "" {
			want = "E(" + state + ") Z(" + map[byte]string{'I': "I", 'T': "E"}[conn.PgConn().TxStatus()] + ")"
			messages = append(messages, &pgproto3.Sync{})
		}
		trace, _ := talk(t, conn, messages...)
		traced(t, policy+", "+c.name+", "+what, trace, want)
	}
	enter, leave := enters.bind(policy), lastSlow.bind(c.tokens, policy)
	wrote := "2 3 C(INSERT 0 1) Z("
	if c.reads {
		wrote = "2 3 E(25006) Z("
	}
	is("autocommit", c.enter, wrote+"I)", append(enter, insert)...)
	is("autocommit read", c.enter, "2 3 T D[1] C(SELECT 1) Z(I)", append(enter, simple("select 1"))...)
	if c.enter == "" {
		talk(t, conn, simple("begin read write"))
		is("block", "", map[bool]string{false: wrote + "T)", true: wrote + "E)"}[c.reads], append(enter, insert)...)
		talk(t, conn, simple("rollback; begin"))
		is("block, read", "", "2 3 T D[1] C(SELECT 1) Z(T)", append(enter, simple("select 1"))...)
		is("block, read, leave", "", "2 3 C(COMMIT) Z(I)", append(leave, simple("commit"))...)
	}
	for what, sql := range map[string]string{
		"row": insert.String, "temporary table": "create temp table z (n int)", "in a savepoint that is no more": "savepoint x; " + insert.String + "; rollback to x",
	} {
		talk(t, conn, simple("begin; "+sql)) // past the check that it should have entered by
		is("written: "+what, c.leave, "2 3 C(COMMIT) Z(I)", append(leave, simple("commit"))...)
		talk(t, conn, simple("rollback; drop table if exists z"))
	}
}

// What is not a policy is an error, not one of the three.
func TestUnknownPolicy(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.proxied(t)
		for _, policy := range []any{nil, "", "readonly", "READ-ONLY", " allow", "allow,deny"} {
			for _, check := range [][]pgproto3.FrontendMessage{enters.bind(policy), lastSlow.bind(s.r.writer(33), policy)} {
				trace, _ := ask(t, s.old, check, &pgproto3.Sync{})
				traced(t, fmt.Sprint(policy), trace, "E(22023) Z(I)")
			}
		}
		exec(t, s.old, "reset fence.token")
		for _, check := range [][]pgproto3.FrontendMessage{enters.bind("allowed"), lastSlow.bind("", "allowed")} {
			trace, _ := ask(t, s.old, check, &pgproto3.Sync{})
			traced(t, "no token", trace, "E(22023) Z(I)")
		}
	})
}

// Once read only, a transaction cannot be made read-write again. Before
// PostgreSQL 16 there is one way, which the last check sees.
func TestReadOnlyStays(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.proxied(t)
		exec(t, s.old, "reset fence.token")
		insert := "insert into " + s.table + " values (33)"
		ways := map[string]string{
			"set transaction read write": "25001", "set transaction_read_only = off": "25001", "set local transaction_read_only = off": "25001",
			"select set_config('transaction_read_only', 'off', false)": "25001", "set session characteristics as transaction read write": "25006",
			"do $$ begin perform set_config('transaction_read_only', 'off', true); end $$": "25001", "reset all": "25006", "set default_transaction_read_only = off": "25006",
			"savepoint x; rollback to x": "25006", "savepoint x; release x": "25006", "savepoint x; set local transaction_read_only = on; rollback to x": "25006",
		}
		trace, _ := ask(t, s.old, enters.bind("read-only"), simple("set transaction read write"))
		traced(t, "autocommit", trace, "2 3 N(25P01) E(25001) Z(I)")
		if got := query[string](t, s.old, "show transaction_read_only"); got != "off" {
			t.Errorf("the next transaction is read only: %s", got)
		}
		resets := []string{"reset transaction_read_only", "set transaction_read_only to default", "do $$ begin set local transaction_read_only to default; end $$"}
		for _, way := range resets {
			ways[way] = "0A000"
			if d.server.Major() < 16 {
				ways[way] = ""
			}
		}
		for way, want := range ways {
			talk(t, s.old, simple("begin"))
			trace, failure := ask(t, s.old, enters.bind("read-only"), simple(way+"; "+insert))
			if failure == nil && want != "" || failure != nil && failure.Code != want {
				t.Errorf("%s: %s, want %s", way, trace, want)
			}
			if want == "" {
				trace, _ := ask(t, s.old, lastSlow.bind("", "read-only"), simple("commit"), &pgproto3.Sync{})
				traced(t, way, trace, "E(TK005) Z(E)")
			}
			talk(t, s.old, simple("rollback"))
		}
	})
}

// A block is bound to the token of the last check before it.
func TestBoundToken(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.proxied(t)
		next := claim(t, s.next, s.r.writer(34))
		moved := func(sql, bound string, tk ticket) {
			t.Helper()
			for _, check := range [][]pgproto3.FrontendMessage{last.bind(bound, tk), lastSlow.bind(bound, "allow")} {
				talk(t, s.old, simple("begin; insert into "+s.table+" values (33); "+sql))
				trace, failure := ask(t, s.old, check, simple("commit"), &pgproto3.Sync{})
				traced(t, sql, trace, "E(TK004) Z(E)")
				if failure == nil || failure.Hint == "" {
					t.Errorf("%s: %+v", sql, failure)
				}
				talk(t, s.old, simple("rollback"))
			}
		}
		// A stale one that moves to a current one would be admitted by any other check.
		for _, how := range []string{"set fence.token = '%s'", "set local fence.token = '%s'", "select set_config('fence.token', '%s', true)", "do $$ begin set fence.token = '%s'; end $$"} {
			moved(fmt.Sprintf(how, s.r.writer(34)), s.r.writer(33), next)
		}
		carry(t, s.old, s.r.writer(34))
		for _, sql := range []string{"reset fence.token", "set local fence.token = ''", "reset all", "set fence.token = '" + s.r.writer(33) + "'"} {
			moved(sql, s.r.writer(34), next)
		}
		exec(t, s.old, "reset fence.token")
		moved("set fence.token = '"+s.r.writer(34)+"'", "", next)
		for _, sql := range []string{"savepoint x; set local fence.token = 'x'; rollback to x", "select 1"} {
			talk(t, s.old, simple("begin; "+sql))
			trace, _ := ask(t, s.old, lastSlow.bind("", "read-only"), simple("commit"))
			traced(t, sql, trace, "2 3 C(COMMIT) Z(I)")
		}
		fresh := connect(t, d.url) // where the setting is not even known
		ready(t, fresh)
		trace, _ := ask(t, fresh, lastSlow.bind("", "read-only"), &pgproto3.Sync{})
		traced(t, "NULL is no token", trace, "2 3 Z(I)")
		trace, _ = ask(t, fresh, lastSlow.bind(nil, "read-only"), &pgproto3.Sync{})
		traced(t, "bound to nothing", trace, "E(TK004) Z(I)")
	})
}

// A change to a domain is seen by the sessions that have a statement with it.
func TestAlteredDomainIsSeen(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.proxied(t)
		ok := func(what string, conn *pgx.Conn) {
			t.Helper()
			trace, _ := ask(t, conn, first.bind(s.r.writer(33), s.ticket), simple("select 1"))
			traced(t, what, trace, "2 3 T D[1] C(SELECT 1) Z(I)")
		}
		ok("before", s.old)
		text := upFile(t, 5)
		exec(t, s.next, text)
		ok("after the file ran again", s.old)
		exec(t, s.next, `begin; alter domain fence.holds_token drop constraint holds_token_check;
			alter domain fence.holds_token add constraint holds_token_check check (fence.raise_refusal('TK007 changed')); commit`)
		trace, _ := ask(t, s.old, first.bind(s.r.writer(33), s.ticket), &pgproto3.Sync{})
		traced(t, "changed", trace, "E(TK007) Z(I)")
		exec(t, s.next, text)
		ok("mended by the file", s.old)
	})
}
