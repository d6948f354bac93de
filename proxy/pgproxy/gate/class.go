package gate

import (
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/sqltext"
)

// class says what a statement is to the fence.
type class uint8

const (
	// work is whatever needs the fence, and whatever is not known.
	work class = iota
	// free neither takes a snapshot nor writes: SET, SHOW, LISTEN and their like.
	free
	begin
	// commit is COMMIT, END and PREPARE TRANSACTION: what makes a block's work last.
	commit
	commitChain
	rollback
	rollbackChain
	// rollbackTo turns a failed block into one that works.
	rollbackTo
	// procedure is CALL and DO, which may commit half-way.
	procedure
	// apart commits half-way: CREATE INDEX CONCURRENTLY and its like.
	apart
	// doubtful may be any of these.
	doubtful
	// unreadable is in an encoding whose letters may look like quotes.
	unreadable
)

// thaw is what makes a transaction read-write again that was made read-only,
// before PostgreSQL 16: RESET transaction_read_only.
const thaw = "transaction_read_only"

// statement is what is known of one.
type statement struct {
	class class
	// modes: a BEGIN or SET that must come before any snapshot.
	modes bool
	// touches: it may change the token, or that its transaction is read-only.
	touches bool
	// forgets: it makes the server forget prepared statements.
	forgets bool
	// drops: but only the one of this name, if it is not empty.
	drops string
	// forgetsAll: the proxy's own, too, or perhaps.
	forgetsAll bool
	// steady: it leaves the transaction as it is in which it runs. Some of the
	// others commit in between when they are not in a block, like VACUUM.
	steady bool
	// executes is the name in an EXECUTE.
	executes string
	// tame and holds: see those functions.
	tame, holds bool
	// recodes: it may change client_encoding.
	recodes bool
	// locks: it is LOCK TABLE, which takes no snapshot.
	locks bool
	// keeps: it may set an isolation level at which a block keeps its first snapshot.
	keeps bool
	// settles: what comes behind it must wait for its reply, since it changes
	// how texts are read, or what is prepared, or starts to copy.
	settles bool
}

// plain is what most statements are.
var plain = statement{class: work, steady: true, tame: true} //nolint:gochecknoglobals // never written to

func classify(s *sqltext.Statement) statement {
	out := statement{class: work}
	switch s.Verb() {
	case "BEGIN", "START":
		if s.BeginsTransaction() {
			out.class, out.modes, out.settles = begin, hasModes(s.Text), true
		}
	case "COMMIT", "END", "ABORT", "ROLLBACK", "PREPARE":
		out.class, out.settles = classifyEnd(s), true
	case "RELEASE":
		out.class = free
	case "SET", "RESET":
		out = statement{class: free, touches: s.Words("RESET", "ALL") || setsToken(s.Text), modes: setsModes(s), settles: true}
		out.recodes = s.Words("RESET", "ALL") || mentions(s.Text, "encoding", "names", escapedName)
	case "DISCARD":
		out = statement{class: free, touches: s.Words("DISCARD", "ALL"), settles: true}
		out.forgets, out.forgetsAll, out.recodes = out.touches, out.touches, out.touches
	case "SHOW", "LISTEN", "UNLISTEN":
		out.class = free
	case "LOCK":
		out.locks = true
	case "DEALLOCATE":
		out.class, out.settles, out.forgets, out.drops = free, true, true, droppedName(s.Text)
		out.forgetsAll = out.drops == "" || strings.HasPrefix(out.drops, OwnPrefix)
	case "DECLARE":
		out.holds, out.touches = holds(s), configures(s.Text)
	case "CALL", "DO":
		out.class, out.touches = procedure, namesToken(s.Text) || configures(s.Text)
		out.forgets = mentions(s.Text, "deallocate")
		out.forgetsAll = out.forgets
	case "COPY":
		out.settles = true
		out.touches = configures(s.Text)
	case "EXECUTE": // maybe of a set_config
		out.steady, out.touches = true, namesToken(s.Text) || configures(s.Text)
		out.executes = executedName(s.Text)
	case "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES", "TABLE", "WITH", "FETCH", "MOVE", "":
		out.steady, out.touches = true, configures(s.Text)
	case "CREATE", "DROP", "ALTER":
		out.class, out.touches = classifyDefinition(s), configures(s.Text)
	default:
		out.touches = configures(s.Text)
	}
	out.keeps = (out.class == begin || out.class == free || contains(s.Text, setConfig)) && keeps(s.Text)
	out.tame = out.class == work && !out.touches && tame(s)
	out.settles = out.settles || out.touches
	out.recodes = out.recodes || mentions(s.Text, setConfig, "pg_settings") && mentions(s.Text, "encoding", escapedName, escapedText)
	return out
}

// classifyEnd reads COMMIT, END, ABORT, ROLLBACK and PREPARE. The PREPARED ones
// act on another transaction, whose own check was at PREPARE TRANSACTION.
func classifyEnd(s *sqltext.Statement) class {
	words := significant(s.Text)
	chain := words.chains()
	switch {
	case s.Words("PREPARE", "TRANSACTION"):
		return commit
	case s.Words("PREPARE"), s.Words("COMMIT", "PREPARED"), s.Words("ROLLBACK", "PREPARED"):
		return work
	case s.Words("ROLLBACK"), s.Words("ABORT"):
		switch {
		case !s.EndsTransaction():
			return rollbackTo
		case chain:
			return rollbackChain
		}
		return rollback
	case chain:
		return commitChain
	}
	return commit
}

// classifyDefinition finds the statements that commit before they are done.
func classifyDefinition(s *sqltext.Statement) class {
	if s.Words(s.Verb(), "SUBSCRIPTION") || significant(s.Text).has("CONCURRENTLY", 0) {
		return apart
	}
	return work
}

// words are the keywords of a short statement, or of the start of a long one.
type words []string

// maxWords is how far a statement is read for its keywords. What would matter
// comes earlier in all statements that PostgreSQL has.
const maxWords = 256

func significant(text string) words {
	scanner := sqltext.NewScanner(text, sqltext.Dialect{})
	var out words
	for len(out) < maxWords {
		t := scanner.Next()
		if t.Kind == sqltext.End {
			break
		}
		if t.Kind == sqltext.Word {
			out = append(out, strings.ToUpper(text[t.Start:t.Stop]))
		}
	}
	return out
}

// has looks for a keyword among the first n words, or among all if n is 0.
func (w words) has(keyword string, n int) bool {
	for i, word := range w {
		if n > 0 && i >= n {
			return false
		}
		if word == keyword {
			return true
		}
	}
	return false
}

// chains reports AND CHAIN, without NO.
func (w words) chains() bool {
	for i := 0; i+1 < len(w); i++ {
		if w[i] == "AND" && w[i+1] == "CHAIN" {
			return true
		}
	}
	return false
}

// hasModes reports whether a BEGIN says more than READ WRITE or READ ONLY: such
// a one fails behind a snapshot.
func hasModes(text string) bool {
	w := significant(text)
	return w.has("ISOLATION", 0) || w.has("DEFERRABLE", 0)
}

// setsModes reports whether a SET is of the same kind.
func setsModes(s *sqltext.Statement) bool {
	if s.Verb() != "SET" {
		return false
	}
	w := significant(s.Text)
	switch {
	case w.has("TRANSACTION_ISOLATION", 3), w.has("TRANSACTION_DEFERRABLE", 3):
		return true
	case w.has("TRANSACTION", 3):
		return w.has("ISOLATION", 0) || w.has("DEFERRABLE", 0) || w.has("SNAPSHOT", 0)
	}
	return false
}

// mentions reports whether text has one of the parts, which are in lower case,
// in any case. It is asked for what may change the setting of the token, under
// its name, by set_config, or where letters are written as numbers. Too much costs
// another look at the token, and has it refused in one message with others. What is
// hidden, in a function for example, is found by the check itself, which reads the
// setting.
func mentions(text string, parts ...string) bool {
	for _, part := range parts {
		if contains(text, part) {
			return true
		}
	}
	return false
}

// contains looks for part, in lower case, in any case.
func contains(text, part string) bool { return index(text, part) >= 0 }

// index is where part is. It goes from one place of its first letter to the next,
// since texts may be long.
func index(text, part string) int {
	lower, upper := indexFrom(text, part[0], part), indexFrom(text, part[0]-('a'-'A'), part)
	if lower < 0 || upper >= 0 && upper < lower {
		return upper
	}
	return lower
}

func indexFrom(text string, first byte, part string) int {
	for at := 0; ; at++ {
		i := strings.IndexByte(text[at:], first)
		if i < 0 || len(text)-at-i < len(part) {
			return -1
		}
		at += i
		if strings.EqualFold(text[at:at+len(part)], part) {
			return at
		}
	}
}
