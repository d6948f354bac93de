package gate

import (
	"strings"
	"testing"
)

// say writes a verdict in one word or two.
func (v Verdict) say() string {
	words := []string{[]string{"forward", "wait", "resolve", "flush", "violation"}[v.Do]}
	for i, name := range []string{"begin", "check", "enter", "present", "leave", "refusal", "end"} {
		if v.Before&(1<<i) != 0 {
			words = append(words, name)
		}
	}
	words = append(words, []string{"", "commit", "leave+commit"}[v.After])
	said := strings.TrimSpace(strings.Join(words, " "))
	if said != "forward" {
		said = strings.TrimPrefix(said, "forward ")
	}
	return said
}

// session is a machine and a server that always agrees, as far as told.
type session struct {
	t *testing.T
	*Machine
}

// newMachine is one whose server has said that it is a new one.
func newMachine(policy Policy) *Machine {
	m := New(policy)
	m.Server('S', []byte("server_version\x0018.1\x00"))
	return m
}

func fastSession(t *testing.T) *session {
	t.Helper()
	m := newMachine(ReadOnly)
	m.Resolved(Fast)
	return &session{t, m}
}

func slowSession(t *testing.T) *session {
	t.Helper()
	m := newMachine(ReadOnly)
	m.Resolved(Slow)
	return &session{t, m}
}

func passSession(t *testing.T) *session {
	t.Helper()
	m := newMachine(Allow)
	m.Resolved(Pass)
	return &session{t, m}
}

func (s *session) query(sql string) string { return s.Client('Q', []byte(sql+"\x00")).say() }

// client sends a message in short form: "P name text", "B portal name",
// "E portal", "C name", "S"; "-" is the empty name.
func (s *session) client(message string) string {
	s.t.Helper()
	kind, rest, _ := strings.Cut(message, " ")
	name := func(word string) string { return strings.TrimPrefix(word, "-") + "\x00" }
	first, second, _ := strings.Cut(rest, " ")
	switch kind {
	case "Q":
		return s.query(rest)
	case "P":
		return s.Client('P', []byte(name(first)+second+"\x00\x00\x00")).say()
	case "B":
		return s.Client('B', []byte(name(first)+name(second)+"\x00\x00\x00\x00\x00\x00")).say()
	case "E":
		return s.Client('E', []byte(name(first)+"\x00\x00\x00\x00")).say()
	case "C":
		return s.Client('C', []byte("S"+name(first))).say()
	}
	return s.Client(kind[0], nil).say()
}

// server sends messages: their types, and behind Z the status, behind C and E
// more in parentheses. It returns what is done with each.
func (s *session) server(messages ...string) string {
	s.t.Helper()
	var out []string
	for _, m := range messages {
		body := []byte(m[1:] + "\x00")
		if m[0] == 'Z' {
			body = []byte(m[1:])
		}
		if m[0] == 'E' {
			body = []byte("SERROR\x00C" + m[1:] + "\x00\x00")
		}
		a := s.Server(m[0], body)
		said := []string{"", "drop", "strip", "keep", "collect", "explain"}[a.Do]
		said += []string{"", "+sync", "+rollback", "+sync+rollback", "+release", "+discard", "+broken"}[a.Then]
		out = append(out, m+":"+said)
	}
	return strings.Join(out, " ")
}

// enterBlock brings the session into a block in which something has run.
func (s *session) enterBlock() *session {
	s.t.Helper()
	s.query("BEGIN")
	s.server("CBEGIN", "ZT")
	if s.query("SELECT 1") == "forward" {
		s.t.Fatal("nothing goes in front of a block's first statement")
	}
	s.server("2", "3", "T", "D", "CSELECT 1", "ZT")
	return s
}

func (s *session) openBlock() *session {
	s.t.Helper()
	s.query("BEGIN")
	s.server("CBEGIN", "ZT")
	return s
}

func (s *session) failBlock() *session {
	s.t.Helper()
	s.enterBlock().query("SELEC")
	s.server("E42601", "ZE")
	return s
}

// TestQueries is the table of (state, Query).
func TestQueries(t *testing.T) {
	t.Parallel()
	states := []func() *session{
		func() *session { return fastSession(t) },
		func() *session { return slowSession(t) },
		func() *session { return fastSession(t).openBlock() },
		func() *session { return slowSession(t).openBlock() },
		func() *session { return fastSession(t).enterBlock() },
		func() *session { return slowSession(t).enterBlock() },
		func() *session { return fastSession(t).failBlock() },
		func() *session { return passSession(t) },
	}
	for _, c := range []struct {
		sql  string
		want [8]string // idle: fast, slow; block begun: fast, slow; entered: fast, slow; failed; pass
	}{
		{"INSERT", [8]string{"check", "enter", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"", [8]string{"forward", "forward", "forward", "forward", "forward", "forward", "forward", "forward"}},
		{"SET a = 1", [8]string{"forward", "forward", "forward", "forward", "forward", "forward", "forward", "forward"}},
		{"SHOW a; LISTEN b", [8]string{"forward", "forward", "forward", "forward", "forward", "forward", "forward", "forward"}},
		{"BEGIN", [8]string{"forward", "forward", "forward", "forward", "forward", "forward", "forward", "forward"}},
		{"begin isolation level serializable", [8]string{"forward", "forward", "forward", "forward", "forward", "forward", "forward", "forward"}},
		{"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", [8]string{"forward", "forward", "forward", "forward", "forward", "forward", "forward", "forward"}},
		{"SAVEPOINT a", [8]string{"check", "enter", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"ROLLBACK TO a", [8]string{"forward", "forward", "forward", "forward", "forward", "forward", "forward", "forward"}},
		{"COMMIT", [8]string{"forward", "forward", "leave", "leave", "leave", "leave", "forward", "forward"}},
		{"/* x */ end work", [8]string{"forward", "forward", "leave", "leave", "leave", "leave", "forward", "forward"}},
		{"PREPARE TRANSACTION 'a'", [8]string{"forward", "forward", "leave", "leave", "leave", "leave", "forward", "forward"}},
		{"COMMIT PREPARED 'a'", [8]string{"check", "enter", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"COMMIT AND CHAIN", [8]string{"forward", "forward", "refusal", "refusal", "refusal", "refusal", "forward", "forward"}},
		{"COMMIT AND NO CHAIN", [8]string{"forward", "forward", "leave", "leave", "leave", "leave", "forward", "forward"}},
		{"ROLLBACK", [8]string{"forward", "forward", "forward", "forward", "forward", "forward", "forward", "forward"}},
		{"ROLLBACK AND CHAIN", [8]string{"forward", "forward", "forward", "forward", "forward", "forward", "forward", "forward"}},
		{"INSERT; SELECT", [8]string{"check", "enter", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"INSERT; COMMIT", [8]string{"check", "enter", "leave", "enter leave", "leave", "leave", "forward", "forward"}},
		{"INSERT; COMMIT; BEGIN", [8]string{"check", "enter", "leave", "enter leave", "leave", "leave", "forward", "forward"}},
		{"COMMIT; BEGIN", [8]string{"forward", "forward", "leave", "leave", "leave", "leave", "forward", "forward"}},
		{"COMMIT; INSERT", [8]string{"refusal", "refusal", "refusal", "refusal", "refusal", "refusal", "refusal", "forward"}},
		{"ROLLBACK; INSERT", [8]string{"refusal", "refusal", "refusal", "refusal", "refusal", "refusal", "refusal", "forward"}},
		{"BEGIN; INSERT", [8]string{"present", "enter", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"BEGIN; INSERT; COMMIT", [8]string{"check", "enter", "leave", "enter leave", "leave", "leave", "forward", "forward"}},
		{"BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT", [8]string{"refusal", "refusal", "refusal", "refusal", "refusal", "refusal", "refusal", "forward"}},
		{"CALL p()", [8]string{"begin check commit", "begin enter leave+commit", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"CALL p(); SELECT 1", [8]string{"check", "enter", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"DO 'x'", [8]string{"begin check commit", "begin enter leave+commit", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"VACUUM", [8]string{"check", "enter", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"CREATE INDEX CONCURRENTLY a ON b (c)", [8]string{"refusal", "refusal", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"DROP INDEX CONCURRENTLY a", [8]string{"refusal", "refusal", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"ROLLBACK TO a; INSERT; COMMIT", [8]string{"check", "enter", "leave", "enter leave", "leave", "leave", "refusal", "forward"}},
		{"CREATE TABLE subscription (id int)", [8]string{"check", "enter", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"DROP SUBSCRIPTION IF EXISTS a", [8]string{"refusal", "refusal", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"SET search_path = geofence; INSERT", [8]string{"check", "enter", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"SET default_transaction_read_only = off; INSERT", [8]string{"check", "enter", "present", "enter", "forward", "forward", "forward", "forward"}},
		{`SET U&"fence\002etoken" = ''; INSERT`, [8]string{"refusal", "refusal", "refusal", "refusal", "refusal", "refusal", "refusal", "refusal"}},
		{"LOCK t", [8]string{"check", "enter", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"LOCK t; INSERT", [8]string{"check", "enter", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"BEGIN; LOCK t", [8]string{"present", "enter", "present", "enter", "forward", "forward", "forward", "forward"}},
		{"BEGIN ISOLATION LEVEL SERIALIZABLE; LOCK t; LOCK u", [8]string{"forward", "forward", "forward", "forward", "forward", "forward", "forward", "forward"}},
		{"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; LOCK t", [8]string{"check", "enter", "forward", "forward", "forward", "forward", "forward", "forward"}},
		{"LOCK t; COMMIT", [8]string{"check", "enter", "leave", "enter leave", "leave", "leave", "forward", "forward"}},
		{"SET fence.token = ''; INSERT", [8]string{"refusal", "refusal", "refusal", "refusal", "refusal", "refusal", "refusal", "refusal"}},
		{"SELECT set_config('fence.token', '', false)", [8]string{"check", "enter", "present", "enter", "forward", "forward", "forward", "enter"}},
		{"RESET transaction_read_only; INSERT", [8]string{"refusal", "refusal", "refusal", "refusal", "refusal", "refusal", "refusal", "refusal"}},
	} {
		for i, state := range states {
			if got := state().query(c.sql); got != c.want[i] {
				t.Errorf("%q in state %d: %q, want %q", c.sql, i, got, c.want[i])
			}
		}
	}
}

// TestExtended is what goes around the messages of the extended protocol, and
// what becomes of the replies.
func TestExtended(t *testing.T) { //nolint:funlen // a table
	t.Parallel()
	for name, c := range map[string]struct {
		session *session
		steps   []string // "message = verdict", or "< replies = what is done with each"
	}{
		"autocommit, twice": {fastSession(t), []string{
			"P - INSERT = forward", "B - - = check", "E - = forward", "S = forward",
			"< 1 2 3 2 CINSERT ZI = 1: 2:drop 3:drop 2: CINSERT: ZI:",
			"B - - = check", "E - = forward", "S = forward",
		}},
		"one transaction of two statements": {fastSession(t), []string{
			"P - INSERT = forward", "B - - = check", "E - = forward", "B - - = forward", "E - = forward", "S = forward",
		}},
		"batch with BEGIN and COMMIT": {fastSession(t), []string{
			"P - BEGIN = forward", "B - - = forward", "E - = forward", "P - INSERT = forward", "B - - = present", "E - = forward",
			"P - COMMIT = forward", "B - - = forward", "E - = leave", "P - INSERT = forward", "B - - = check", "E - = forward", "S = forward",
		}},
		"named COMMIT that is refused": {fastSession(t), []string{
			"P c COMMIT = forward", "S = forward", "< 1 ZI = 1: ZI:",
			"Q BEGIN = forward", "< CBEGIN ZT = CBEGIN: ZT:",
			"Q INSERT = present", "< 2 3 CINSERT ZT = 2:drop 3:drop CINSERT: ZT:",
			"B - c = forward", "E - = leave", "S = forward", "B - c = wait",
			"< 2 ETK001 ZE = 2: ETK001:strip ZE:drop+rollback",
			"< 3 1 2 CROLLBACK 3 3 ZI = 3:drop 1:drop 2:drop CROLLBACK:drop 3:drop 3:drop ZI:",
			"B - c = forward",
		}},
		"prepared anew behind one that fails": {fastSession(t), []string{
			"P - CREATE TABLE a = forward", "B - - = check", "E - = forward", "S = forward", "P - CREATE TABLE b = forward",
			"< 1 2 3 2 E22012 ZI = 1: 2:drop 3:drop 2: E22012: ZI:", "B - - = check",
		}},
		"prepared anew by name behind one that fails": {fastSession(t), []string{
			"P a VACUUM = forward", "B - a = check", "S = forward", "C a = forward", "P a VACUUM = forward",
			"< 1 2 3 E22012 ZI = 1: 2:drop 3:drop E22012: ZI:", "B - a = check",
		}},
		"COMMIT by Query that is refused": {fastSession(t).enterBlock(), []string{
			"Q COMMIT = leave", "Q SELECT 1 = wait",
			"< ETK001 ZE 3 1 2 CROLLBACK 3 3 ZI = ETK001:strip+sync+rollback ZE:drop 3:drop 1:drop 2:drop CROLLBACK:drop 3:drop 3:drop ZI:",
			"Q SELECT 1 = check",
		}},
		"Query that is refused": {fastSession(t), []string{
			"Q INSERT = check", "< ETK001 ZI = ETK001:strip+sync ZI:", "Q INSERT = check",
		}},
		"CALL by Query": {fastSession(t), []string{
			"Q CALL p() = begin check commit",
			"< 2 CBEGIN 3 2 3 CCALL ZT 2 CCOMMIT 3 ZI = 2:drop CBEGIN:drop 3:drop 2:drop 3:drop CCALL:keep ZT:drop 2:drop CCOMMIT:drop+release 3:drop ZI:",
		}},
		"CALL that commits inside": {fastSession(t), []string{
			"Q CALL p() = begin check commit",
			"< 2 CBEGIN 3 2 3 E2D000 ZE 2 CROLLBACK 3 ZI = 2:drop CBEGIN:drop 3:drop 2:drop 3:drop E2D000: ZE:drop 2:drop CROLLBACK:drop 3:drop ZI:",
		}},
		"CALL with a stale token": {fastSession(t), []string{
			"Q CALL p() = begin check commit",
			"< 2 CBEGIN 3 ETK001 ZE = 2:drop CBEGIN:drop 3:drop ETK001:strip ZE:drop+rollback",
			"< 3 1 2 CROLLBACK 3 3 ZI = 3:drop 1:drop 2:drop CROLLBACK:drop 3:drop 3:drop ZI:",
		}},
		"CALL in a batch": {fastSession(t), []string{
			"P - CALL = forward", "B - - = begin check", "E - = forward", "S = end",
			"< 1 2 CBEGIN 3 2 3 2 CCALL 2 CCOMMIT 3 ZI = 1: 2:drop CBEGIN:drop 3:drop 2:drop 3:drop 2: CCALL: 2:drop CCOMMIT:drop 3:drop ZI:",
		}},
		"DISCARD ALL takes the proxy's statements": {fastSession(t), []string{
			"Q DISCARD ALL = forward", "Q SELECT 1 = wait", "< CDISCARD+ALL ZI = CDISCARD+ALL: ZI:",
		}},
		"the token changes within a batch": {fastSession(t), []string{
			"P - SELECT set_config('fence.token','',false) = forward", "B - - = check", "E - = forward",
			"P - INSERT = forward", "B - - = enter", "E - = forward", "P - BEGIN = forward", "B - - = forward", "E - = forward", "S = forward",
		}},
		"VACUUM ends the transaction that was checked": {fastSession(t), []string{
			"P - VACUUM = forward", "B - - = check", "E - = forward", "P - INSERT = forward", "B - - = check", "E - = forward", "S = forward",
		}},
		"so may others that are not in a block": {fastSession(t), []string{
			"P - ANALYZE = forward", "B - - = check", "E - = forward", "B - - = check", "E - = forward", "S = forward",
		}},
		"LOCK TABLE before the snapshot that a block keeps": {fastSession(t), []string{
			"Q BEGIN ISOLATION LEVEL REPEATABLE READ = forward", "< CBEGIN ZT = CBEGIN: ZT:", "Q LOCK t = forward", "< CLOCK ZT = CLOCK: ZT:",
			"P - LOCK u = forward", "B - - = forward", "E - = forward", "P - SELECT = forward", "B - - = present", "E - = forward", "S = forward",
			"< 1 2 CLOCK 1 2 3 2 CSELECT ZT = 1: 2: CLOCK: 1: 2:drop 3:drop 2: CSELECT: ZT:", "Q COMMIT = leave", "< 2 3 CCOMMIT ZI = 2:drop 3:drop CCOMMIT: ZI:",
			"Q BEGIN = forward", "< CBEGIN ZT = CBEGIN: ZT:", "Q LOCK t = present",
		}},
		"and of a level that is the default": {slowSession(t), []string{
			"Q SET default_transaction_isolation = 'serializable' = forward", "< CSET ZI = CSET: ZI:", "P - BEGIN = forward", "B - - = forward", "E - = forward",
			"P - LOCK t = forward", "B - - = forward", "E - = forward", "P - COMMIT = forward", "B - - = forward", "E - = leave", "S = forward",
		}},
		"a name that SQL may have given to something else": {fastSession(t), []string{
			"P c COMMIT = forward", "S = forward", "< 1 ZI = 1: ZI:", "Q DEALLOCATE c = forward", "< CDEALLOCATE ZI = CDEALLOCATE: ZI:",
			"B - c = refusal", "S = forward", "< E26000 ZI = E26000:strip ZI:", "P c COMMIT = forward", "B - c = forward", "E - = forward", "S = forward",
		}},
		"pipelined batches need no wait outside of blocks": {fastSession(t), []string{
			"P a INSERT = forward", "B - a = check", "E - = forward", "S = forward",
			"B - a = check", "E - = forward", "S = forward", "Q INSERT = check", "Q INSERT = wait",
		}},
		"but where BEGIN may have failed": {fastSession(t), []string{
			"Q BEGIN = forward", "Q INSERT = wait", "P - INSERT = wait", "S = wait", "< CBEGIN ZT = CBEGIN: ZT:", "Q INSERT = present",
		}},
		"a name that may not have been redefined": {fastSession(t), []string{
			"P c COMMIT = forward", "S = forward", "< 1 ZI = 1: ZI:",
			"C x = forward", "C c = forward", "P c SET a = 1 = forward", "S = forward", "B - c = wait",
			"< E42601 ZI = E42601: ZI:", "B - c = refusal", "S = forward",
		}},
		"COPY by Query ignores Sync, too": {passSession(t), []string{
			"Q COPY t FROM STDIN = forward", "S = forward", "d = forward", "c = forward", "< G CCOPY ZI = G: CCOPY: ZI:",
			"Q SELECT set_config('fence.token', '', false) = enter", "< 2 3 CSELECT ZI = 2:drop 3:drop CSELECT: ZI:",
		}},
		"COPY by the extended protocol ignores Sync": {fastSession(t), []string{
			"P - COPY t FROM STDIN = forward", "B - - = check", "E - = forward", "S = forward", "Q SELECT = wait",
			"< 1 2 3 2 G = 1: 2:drop 3:drop 2: G:", "Q SELECT = violation", "S = forward", "d = forward", "c = forward", "S = forward",
			"< CCOPY ZI = CCOPY: ZI:", "Q SELECT = check",
		}},
	} {
		for _, step := range c.steps {
			message, want, _ := cutLast(step, " = ")
			var got string
			if replies, ok := strings.CutPrefix(message, "< "); ok {
				words := strings.Fields(replies)
				for i := range words {
					words[i] = strings.ReplaceAll(words[i], "+", " ")
				}
				got = strings.ReplaceAll(c.session.server(words...), "CDISCARD ALL", "CDISCARD+ALL")
			} else {
				got = c.session.client(message)
			}
			if got != want {
				t.Errorf("%s: %s\n got %q", name, step, got)
			}
		}
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// TestUnsolicited: what the server cannot have said ends the session.
func TestUnsolicited(t *testing.T) {
	t.Parallel()
	for _, m := range []string{"ZI", "CSELECT 1", "2", "D"} {
		if got := fastSession(t).server(m); !strings.HasSuffix(got, "+broken") {
			t.Errorf("%s: %s", m, got)
		}
	}
	s := fastSession(t)
	s.query("SELECT 1")
	if got := s.server("ZI"); !strings.HasSuffix(got, "+broken") {
		t.Errorf("ReadyForQuery in place of the check's reply: %s", got)
	}
	s = fastSession(t)
	s.client("B - -")
	s.client("S")
	if got := s.server("2", "3", "2", "ZT"); !strings.HasSuffix(got, "+broken") {
		t.Errorf("a block that nobody began: %s", got)
	}
}

// TestAllocations: what is sent over and over allocates nothing.
func TestAllocations(t *testing.T) {
	m := New(ReadOnly)
	m.Resolved(Fast)
	bind, execute := []byte("\x00P0_1\x00\x00\x00\x00\x00\x00\x00"), []byte("\x00\x00\x00\x00\x00")
	portal := []byte("P\x00")
	update, ready := []byte("UPDATE 1\x00"), []byte("I")
	m.Client('P', []byte("P0_1\x00UPDATE t\x00\x00\x00"))
	m.Client('S', nil)
	m.Server('1', nil)
	m.Server('Z', ready)
	n := testing.AllocsPerRun(1000, func() {
		m.Client('B', bind)
		m.Client('D', portal)
		m.Client('E', execute)
		m.Client('S', nil)
		m.Server('2', nil)
		m.Server('3', nil)
		m.Server('2', nil)
		m.Server('n', nil)
		m.Server('C', update)
		m.Server('Z', ready)
	})
	if n != 0 {
		t.Errorf("%v allocations a transaction", n)
	}
	if !m.Idle() {
		t.Error("the transaction has not ended")
	}
}
