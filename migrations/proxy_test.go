package migrations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// proxied is a stage with all that clientMessages need.
func (d *database) proxied(t testing.TB) *stage {
	t.Helper()
	s := d.stage(t)
	exec(t, s.next, fmt.Sprintf(`create table %s_unique (n int unique deferrable initially deferred);
		create function %[1]s_write(int) returns int language sql as 'insert into %[1]s values ($1) returning n';
		create procedure %[1]s_call() language sql as 'insert into %[1]s values (33)'`, s.table))
	s.old = s.wired(t)
	carry(t, s.old, s.r.writer(33))
	return s
}

// clientMessages are what a client may send in one go.
func (s *stage) clientMessages(t *testing.T) map[string][]pgproto3.FrontendMessage {
	t.Helper()
	insert := "insert into " + s.table + " values (33)"
	write := query[uint32](t, s.next, "select oid from pg_proc where proname = $1", s.table+"_write")
	batch := func(sql string) []pgproto3.FrontendMessage {
		return []pgproto3.FrontendMessage{&pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Execute{}}
	}
	messages := map[string][]pgproto3.FrontendMessage{
		"copy in":       {simple("copy " + s.table + " from stdin"), &pgproto3.CopyData{Data: []byte("33\n33\n")}, &pgproto3.CopyDone{}},
		"copy fails":    {simple("copy " + s.table + " from stdin"), &pgproto3.CopyData{Data: []byte("33\n")}, &pgproto3.CopyFail{Message: "no"}},
		"function call": {&pgproto3.FunctionCall{Function: write, ArgFormatCodes: []uint16{0}, Arguments: [][]byte{[]byte("33")}}},
		"batch":         append(slices.Concat(batch(insert), batch(insert)), &pgproto3.Sync{}),
		"batch, BEGIN":  append(slices.Concat(batch("begin"), batch(insert), batch("commit")), &pgproto3.Sync{}),
		"batch, error":  append(slices.Concat(batch(insert), batch("select 1/0")), &pgproto3.Sync{}),
	}
	for _, sql := range []string{
		insert, insert + "; " + insert, "", ";", "select 1", "select 1/0", "select nope from " + s.table, "selec", "begin", "begin; " + insert + "; commit", insert + "; commit; " + insert,
		"copy " + s.table + " to stdout", "vacuum " + s.table, "analyze " + s.table, "lock table " + s.table, "savepoint x", "set local work_mem = '1MB'",
		"declare c cursor for select 1", "listen x", "discard plans", "commit", "rollback", "call " + s.table + "_call()", "do $$ begin perform 1; end $$",
		fmt.Sprintf("insert into %s_unique values (1), (1)", s.table), fmt.Sprintf("create index concurrently on %s (n)", s.table),
	} {
		messages[sql] = []pgproto3.FrontendMessage{simple(sql)}
	}
	return messages
}

// fencedChecks are the checks that a current token passes.
func (s *stage) fencedChecks() map[string][]pgproto3.FrontendMessage {
	token := s.r.writer(33)
	return map[string][]pgproto3.FrontendMessage{
		"first":                 first.bind(token, s.ticket),
		"first, nothing cached": first.bind(nil, nil),
		"last":                  last.bind(token, s.ticket),
		"last, no ticket":       last.bind(token, nil),
		"last, slow":            lastSlow.bind(token, "read-only"),
		"enters":                enters.bind("read-only"),
		"present":               present.bind(s.ticket),
	}
}

// I7: with a current token a client sees what it would see without the check,
// behind every check, in front of every message, in a block and outside.
func TestBindIsNotSeen(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.proxied(t)
		messages := s.clientMessages(t)
		for name, check := range s.fencedChecks() {
			for message, client := range messages {
				for _, block := range []string{"", "begin", "begin isolation level serializable; select 1", "begin read only"} {
					run := func(check []pgproto3.FrontendMessage) (string, int) {
						exec(t, s.next, "truncate "+s.table)
						if block != "" {
							talk(t, s.old, simple(block))
						}
						trace, _ := talk(t, s.old, append(slices.Clone(check), client...)...)
						if s.old.PgConn().TxStatus() != 'I' {
							talk(t, s.old, simple("rollback"))
						}
						return trace, s.rows(t, s.next, 33)
					}
					direct, rows := run(nil)
					got, written := run(check)
					traced(t, fmt.Sprintf("%s, %q, in %q", name, message, block), got, "2 3 "+direct)
					if written != rows {
						t.Errorf("%s, %q, in %q: %d rows, want %d", name, message, block, written, rows)
					}
				}
			}
		}
	})
}

// A refused message does nothing, and the session goes on at the next Sync;
// whatever the client sent until then is skipped, data of COPY too.
func TestBindRefuses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.proxied(t)
		messages := s.clientMessages(t)
		claim(t, s.next, s.r.writer(34))
		checks := s.fencedChecks()
		delete(checks, "present") // only says who is there
		refused := map[string]string{}
		for name := range checks {
			refused[name] = "TK001"
		}
		checks["refusal"], refused["refusal"] = refuses.bind("TK007 fence: no\nDo without."), "TK007"
		checks["bound to another"], refused["bound to another"] = last.bind(s.r.writer(32), s.ticket), "TK004"
		for name, check := range checks {
			for message, client := range messages {
				for _, block := range []string{"", "begin"} {
					status := "I"
					if block != "" {
						talk(t, s.old, simple(block))
						status = "E"
					}
					sent := slices.Concat(check, client)
					if _, ok := client[len(client)-1].(*pgproto3.Sync); !ok {
						sent = append(sent, &pgproto3.Sync{})
					}
					trace, _ := talk(t, s.old, sent...)
					traced(t, fmt.Sprintf("%s, %q, in %q", name, message, block), trace, fmt.Sprintf("E(%s) Z(%s)", refused[name], status))
					trace, _ = talk(t, s.old, simple("rollback; select 1"))
					if !strings.HasSuffix(trace, "T D[1] C(SELECT 1) Z(I)") {
						t.Errorf("%s, %q, in %q: the session goes on with %s", name, message, block, trace)
					}
				}
			}
		}
		if got := s.rows(t, s.next, 33); got != 0 {
			t.Errorf("%d rows of a refused token", got)
		}
	})
}

// I1: holds_ticket holds the resource until the transaction ends, whatever
// becomes of the savepoint that it was checked in; so does the slow check.
func TestBindHoldsToTheEnd(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		for _, name := range []string{"first", "first, nothing cached", "last", "last, slow", "enters"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := d.proxied(t)
				check := s.fencedChecks()[name]
				held := func() bool {
					return query[bool](t, s.next, "select exists (select from pg_locks where pid = $1 and relation = $2 and mode = 'RowExclusiveLock')", s.old.PgConn().PID(), s.ticket.seq)
				}
				for _, sql := range []string{"insert into " + s.table + " values (33)", "select 1; commit", "begin; select 1; rollback; select 2"} {
					ask(t, s.old, check, simple(sql))
					if held() {
						t.Errorf("still held after %q", sql)
					}
				}
				ask(t, s.old, check, simple("begin"))
				if !held() {
					t.Error("BEGIN lets it go")
				}
				talk(t, s.old, simple("rollback; begin; savepoint x"))
				ask(t, s.old, check, simple("rollback to x"))
				if !held() {
					t.Error("ROLLBACK TO lets it go")
				}
				claiming := start(t, s.next, "select fence.claim($1)", s.r.writer(34))
				s.blocked(t, s.next)
				s.write(t, s.old, 33)
				traced(t, "commit", func() string { trace, _ := talk(t, s.old, simple("commit")); return trace }(), "C(COMMIT) Z(I)")
				if err := claiming.end(t); err != nil {
					t.Fatal(describe(err))
				}
				if got := s.rows(t, s.next, 33); got != 2 {
					t.Errorf("the new holder sees %d rows, want 2", got)
				}
				trace, _ := ask(t, s.old, check, simple("insert into "+s.table+" values (33)"), &pgproto3.Sync{})
				traced(t, "stale", trace, "E(TK001) Z(I)")
			})
		}
	})
}

// present is the lock that pgstore takes, so that eviction finds both alike.
func TestPresentIsTheLockOfPgstore(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.wired(t)
		held := func() []string {
			return list(t, conn, "select format('%s %s %s %s', classid, objid, objsubid, mode) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'")
		}
		for _, tk := range []ticket{{1, 1}, {16384, 1 << 31}, {1<<31 + 5, 1<<32 - 1}, {1<<32 - 1, 1<<63 - 1}, {70000, 0x7123456789abcdef}} {
			talk(t, conn, simple("begin"))
			exec(t, conn, presence, tk.seq, tk.epoch)
			want := held()
			talk(t, conn, simple("rollback; begin"))
			ask(t, conn, present.bind(tk), simple("select 1"))
			if got := held(); len(got) != 1 || !slices.Equal(got, want) {
				t.Errorf("%v: holds %q, want %q", tk, got, want)
			}
			talk(t, conn, simple("rollback"))
			if got := held(); len(got) != 0 {
				t.Errorf("%v: still holds %q", tk, got)
			}
		}
		for _, none := range []any{nil, "{}", "{1,NULL}", "{NULL,1}"} { // a session without a ticket has no presence
			trace, _ := ask(t, conn, present.bind(none), &pgproto3.Sync{})
			traced(t, fmt.Sprint(none), trace, "E(23514) Z(I)")
		}
	})
}

// The whole of it works for a role that may nothing, after SET ROLE, and in
// transactions that are read only.
func TestBindOfAnyRole(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.proxied(t)
		name, url := d.login(t, "NOINHERIT")
		other, _ := d.login(t, "")
		exec(t, s.next, fmt.Sprintf("grant %s to %s", other, name))
		conn := connect(t, url)
		ready(t, conn)
		carry(t, conn, s.r.writer(33))
		try := func(what, sql, want string) {
			t.Helper()
			for name, check := range s.fencedChecks() {
				trace, _ := ask(t, conn, check, simple(sql))
				traced(t, name+", "+what, trace, "2 3 "+want)
			}
			trace, _ := ask(t, conn, refuses.bind("TK007 no"), &pgproto3.Sync{})
			traced(t, "refusal, "+what, trace, "E(TK007) Z("+string(conn.PgConn().TxStatus())+")")
		}
		try("as itself", "select 1", "T D[1] C(SELECT 1) Z(I)")
		exec(t, conn, "set role "+other)
		try("after SET ROLE", "select 1", "T D[1] C(SELECT 1) Z(I)")
		for _, sql := range []string{
			"create temp table x (n fence.holds_token)", "create temp table x (n fence.present[])", "create domain pg_temp.x as fence.leaves",
			"create function pg_temp.x(fence.enters) returns int language sql return 1", "create temp table x as select null::fence.refusal where false",
			"alter domain fence.holds_ticket drop constraint holds_ticket_check", "drop domain fence.holds_ticket", "select fence.known_policy('')",
		} {
			fails(t, conn, "42501", sql)
		}
		exec(t, conn, "reset role; set default_transaction_read_only = on")
		try("read only", "select 1", "T D[1] C(SELECT 1) Z(I)")
	})
}

// A proxy says its refusals through a domain that does nothing but raise.
func TestRefusalOnlyRaises(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.wired(t)
		for said, want := range map[any][3]string{
			"TK007 fence: no":                      {"TK007", "fence: no", ""},
			"TK001 fence: no 100%\nuse %I\nor %%":  {"TK001", "fence: no 100%", "use %I\nor %%"},
			"TK008 größer\nals":                    {"TK008", "größer", "als"},
			"TK007 " + strings.Repeat("x", 100000): {"TK007", strings.Repeat("x", 100000), ""},
			"TK001 x\n":                            {"TK001", "x", ""},
			"57014 canceling":                      {"57014", "canceling", ""},
		} {
			trace, failure := ask(t, conn, refuses.bind(said), simple("select 1"), &pgproto3.Sync{})
			traced(t, "refusal", trace, "E("+want[0]+") Z(I)")
			if failure == nil || failure.Message != want[1] || failure.Hint != want[2] || failure.Severity != "ERROR" {
				t.Errorf("%.40q: %+.200v", said, failure)
			}
		}
		for _, said := range []any{nil, "", " ", "TK", "TK001", "TK001 ", "TK001\nx", "TK001 \nx", "TK00A x", "TK100 x", "tk001 x", " TK001 x", "42501 x", "00000 x", "57014", "57014x", "570142 x", "57P01 x", "P0001 x", "TK0011 x"} {
			trace, _ := ask(t, conn, refuses.bind(said), simple("select 1"), &pgproto3.Sync{})
			traced(t, fmt.Sprintf("%q", said), trace, "E(TK007) Z(I)")
		}
	})
}
