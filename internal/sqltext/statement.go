package sqltext

import (
	"iter"
	"strings"
)

// leading is how many words at its start tell a statement apart.
const leading = 4

// Statement is one statement of a text.
type Statement struct {
	// Text runs from the first token of the statement to its last, without the
	// semicolon.
	Text string

	words [leading]string
}

// Words reports whether the statement starts with the given keywords, in
// upper case; at most four are told apart.
func (s *Statement) Words(keywords ...string) bool {
	for i, k := range keywords {
		if i == leading || !equalFold(s.words[i], k) {
			return false
		}
	}
	return true
}

// Verb returns the first keyword of the statement in upper case, "" if it
// starts with anything else.
func (s *Statement) Verb() string { return strings.ToUpper(s.words[0]) }

// EndsTransaction reports whether the statement ends the transaction that it
// runs in, or would end another one: COMMIT, END, ABORT, ROLLBACK but for
// ROLLBACK TO, and PREPARE TRANSACTION.
func (s *Statement) EndsTransaction() bool {
	switch {
	case s.Words("ROLLBACK"):
		at := 1
		if equalFold(s.words[1], "WORK") || equalFold(s.words[1], "TRANSACTION") {
			at = 2
		}
		return !equalFold(s.words[at], "TO")
	case s.Words("COMMIT"), s.Words("END"), s.Words("ABORT"), s.Words("PREPARE", "TRANSACTION"):
		return true
	}
	return false
}

// BeginsTransaction reports whether the statement is BEGIN or START
// TRANSACTION.
func (s *Statement) BeginsTransaction() bool {
	return s.Words("BEGIN") || s.Words("START", "TRANSACTION")
}

// Forgets reports whether the statement makes the session forget prepared
// statements: DEALLOCATE and DISCARD.
func (s *Statement) Forgets() bool { return s.Words("DEALLOCATE") || s.Words("DISCARD") }

// ImportsSnapshot reports whether the statement is SET TRANSACTION SNAPSHOT,
// which makes the transaction see the past.
func (s *Statement) ImportsSnapshot() bool {
	return s.Words("SET", "TRANSACTION", "SNAPSHOT") ||
		s.Words("SET", "LOCAL", "TRANSACTION", "SNAPSHOT") || s.Words("SET", "SESSION", "TRANSACTION", "SNAPSHOT")
}

// IsCommand reports whether the statement starts like one of SQL. What does
// not may be the name of a prepared statement, to whoever takes such names.
func (s *Statement) IsCommand() bool {
	switch s.Verb() {
	case "", "ABORT", "ALTER", "ANALYSE", "ANALYZE", "BEGIN", "CALL", "CHECKPOINT", "CLOSE", "CLUSTER", "COMMENT", "COMMIT", "COPY",
		"CREATE", "DEALLOCATE", "DECLARE", "DELETE", "DISCARD", "DO", "DROP", "END", "EXECUTE", "EXPLAIN", "FETCH", "GRANT",
		"IMPORT", "INSERT", "LISTEN", "LOAD", "LOCK", "MERGE", "MOVE", "NOTIFY", "PREPARE", "REASSIGN", "REFRESH", "REINDEX",
		"RELEASE", "RESET", "REVOKE", "ROLLBACK", "SAVEPOINT", "SECURITY", "SELECT", "SET", "SHOW", "START", "TABLE", "TRUNCATE",
		"UNLISTEN", "UPDATE", "VACUUM", "VALUES", "WITH":
		return true
	}
	return false
}

// Statements yields the statements of text in turn; empty ones are left out.
func Statements(text string, d Dialect) iter.Seq[Statement] {
	return func(yield func(Statement) bool) {
		c := cutter{scanner: Scanner{text: text, dialect: d}}
		for {
			s, found := c.next()
			if !found || !yield(s) {
				return
			}
		}
	}
}

// First returns the first statement of text. It reads no further than the
// words that tell the statement apart: its Text is empty.
func First(text string, d Dialect) Statement {
	scanner := Scanner{text: text, dialect: d}
	var s Statement
	for n := 0; n < leading; {
		t := scanner.Next()
		if t.Kind != Word {
			if n == 0 && t.Kind == Symbol && text[t.Start] == ';' {
				continue
			}
			break
		}
		s.words[n] = text[t.Start:t.Stop]
		n++
	}
	return s
}

// Open reports whether text ends inside a literal, a quoted word or a comment,
// a comment to the end of the line included: whether text appended to it would
// be swallowed.
func Open(text string, d Dialect) bool {
	scanner := Scanner{text: text, dialect: d}
	for scanner.Next().Kind != End {
	}
	return scanner.Open()
}

// cutter cuts a text at the semicolons that end a statement.
type cutter struct {
	scanner Scanner

	// Of the statement being read:
	statement   Statement
	tokens      int
	start, stop int
	depth       int  // of parentheses: those of CREATE RULE … DO ( … ; … ) hold semicolons
	begin       bool // the last token was BEGIN: ATOMIC makes it a body
	body        bool // inside BEGIN ATOMIC … END
	first       bool // the next token is the first of a statement of the body
}

func (c *cutter) next() (Statement, bool) {
	*c = cutter{scanner: c.scanner}
	for {
		t := c.scanner.Next()
		switch {
		case t.Kind == End:
			return c.cut()
		case t.Kind == Symbol && c.scanner.text[t.Start] == ';' && c.depth == 0:
			if c.body {
				c.stop, c.first = t.Stop, true
				continue
			}
			if s, found := c.cut(); found {
				return s, true
			}
		default:
			c.read(t)
		}
	}
}

// cut ends the statement being read; an empty one is none.
func (c *cutter) cut() (Statement, bool) {
	if c.tokens == 0 {
		return Statement{}, false
	}
	c.statement.Text = c.scanner.text[c.start:c.stop]
	return c.statement, true
}

func (c *cutter) read(t Token) {
	text := c.scanner.text[t.Start:t.Stop]
	if c.tokens == 0 {
		c.start = t.Start
	}
	c.stop = t.Stop
	first, begin := c.first, c.begin
	c.first, c.begin = false, false
	switch {
	case t.Kind == Symbol && text == "(":
		c.depth++
	case t.Kind == Symbol && text == ")":
		c.depth = max(0, c.depth-1)
	case t.Kind == Word:
		if c.tokens < leading && (c.tokens == 0 || c.statement.words[c.tokens-1] != "") {
			c.statement.words[c.tokens] = text
		}
		switch {
		case c.body && first && equalFold(text, "END"):
			c.body = false
		case begin && equalFold(text, "ATOMIC"):
			c.body, c.first = true, true
		case !c.body && c.depth == 0 && equalFold(text, "BEGIN"):
			c.begin = c.createsRoutine()
		}
	}
	c.tokens++
}

func (c *cutter) createsRoutine() bool {
	s := &c.statement
	return s.Words("CREATE", "FUNCTION") || s.Words("CREATE", "PROCEDURE") ||
		s.Words("CREATE", "OR", "REPLACE", "FUNCTION") || s.Words("CREATE", "OR", "REPLACE", "PROCEDURE")
}

// equalFold compares a word with an upper-case keyword as PostgreSQL does:
// only ASCII letters fold.
func equalFold(word, keyword string) bool {
	if len(word) != len(keyword) {
		return false
	}
	for i := range len(word) {
		c := word[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != keyword[i] {
			return false
		}
	}
	return true
}
