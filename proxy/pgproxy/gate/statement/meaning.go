package statement

import (
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/sqltext"
)

// Class says what a statement is to the fence.
type Class uint8

const (
	// Work is whatever needs the fence, and whatever is not known.
	Work Class = iota
	// Free neither takes a snapshot nor writes: SET, SHOW, LISTEN and their like.
	Free
	// Begin begins a block.
	Begin
	// Commit is COMMIT, END and PREPARE TRANSACTION: what makes a block's work last.
	Commit
	// CommitChain is COMMIT AND CHAIN.
	CommitChain
	// Rollback is ROLLBACK and ABORT.
	Rollback
	// RollbackChain is ROLLBACK AND CHAIN.
	RollbackChain
	// RollbackTo turns a failed block into one that works.
	RollbackTo
	// Procedure is CALL and DO, which may commit half-way.
	Procedure
	// Apart commits half-way: CREATE INDEX CONCURRENTLY and its like.
	Apart
	// Doubtful may be any of these.
	Doubtful
	// Unreadable is in an encoding whose letters may look like quotes.
	Unreadable
)

// thaw is what makes a transaction read-write again that was made read-only,
// before PostgreSQL 16: RESET transaction_read_only.
const thaw = "transaction_read_only"

// Meaning is what is known of a statement.
type Meaning struct {
	Class Class
	// Modes: a BEGIN or SET that must come before any snapshot.
	Modes bool
	// Lifts: a BEGIN or SET that makes a transaction read-write, which must come before
	// any snapshot if it is not.
	Lifts bool
	// Touches: it may change the token, or that its transaction is read-only.
	Touches bool
	// Arms: it may prepare by SQL what touches.
	Arms bool
	// Runs: it may run what was prepared, and so touch if something that does was.
	Runs bool
	// Forgets: it makes the server forget prepared statements.
	Forgets bool
	// Drops: but only the one of this name, if it is not empty.
	Drops string
	// ForgetsAll: the proxy's own, too, or perhaps.
	ForgetsAll bool
	// Steady: it leaves the transaction as it is in which it runs. Some of the
	// others commit in between when they are not in a block, like VACUUM.
	Steady bool
	// Executes is the name in an EXECUTE.
	Executes string
	// Tame: it needs the fence, does not touch the token, and does in a block what it
	// does outside of one.
	Tame bool
	// Holds: its query runs at COMMIT.
	Holds bool
	// Recodes: it may change client_encoding.
	Recodes bool
	// Locks: it is LOCK TABLE, which takes no snapshot.
	Locks bool
	// Keeps: it may set an isolation level at which a block keeps its first snapshot.
	Keeps bool
	// ReadOnly: it may make a transaction read-only.
	ReadOnly bool
	// Settles: what comes behind it must wait for its reply, since it changes
	// how texts are read, or what is prepared, or starts to copy.
	Settles bool
}

// What most statements are, and those are that may be anything.
var (
	Plain   = Meaning{Class: Work, Steady: true, Tame: true}            //nolint:gochecknoglobals // never written to
	Unknown = Meaning{Class: Doubtful, Settles: true, ForgetsAll: true} //nolint:gochecknoglobals // never written to
)

// Of reads a statement.
func Of(s *sqltext.Statement) Meaning {
	out := Meaning{Class: Work}
	switch s.Verb() {
	case "BEGIN", "START":
		if s.BeginsTransaction() {
			out.Class, out.Modes, out.Settles = Begin, hasModes(s.Text), true
			out.Lifts = significant(s.Text).has("WRITE", 0)
		}
	case "COMMIT", "END", "ABORT", "ROLLBACK", "PREPARE":
		out.Class, out.Settles = classifyEnd(s), true
		out.Arms = s.Words("PREPARE") && configures(s.Text)
	case "RELEASE":
		out.Class = Free
	case "SET", "RESET":
		out = Meaning{Class: Free, Touches: s.Words("RESET", "ALL") || setsToken(s.Text), Modes: setsModes(s), Settles: true}
		out.Lifts = setsTransaction(s) && significant(s.Text).has("WRITE", 0)
		out.Recodes = s.Words("RESET", "ALL") || mentions(s.Text, "encoding", "names", escapedName)
	case "DISCARD":
		out = Meaning{Class: Free, Touches: s.Words("DISCARD", "ALL"), Settles: true}
		out.Forgets, out.ForgetsAll, out.Recodes = out.Touches, out.Touches, out.Touches
	case "SHOW", "LISTEN", "UNLISTEN":
		out.Class = Free
	case "LOCK":
		out.Locks = true
	case "DEALLOCATE":
		out.Class, out.Settles, out.Forgets, out.Drops = Free, true, true, droppedName(s.Text)
		out.ForgetsAll = out.Drops == "" || strings.HasPrefix(out.Drops, OwnPrefix)
	case "DECLARE":
		out.Holds, out.Touches = holds(s), configures(s.Text)
	case "CALL", "DO":
		out.Class, out.Touches = Procedure, namesToken(s.Text) || configures(s.Text)
		out.Arms, out.Runs = out.Touches && contains(s.Text, "prepare"), contains(s.Text, "execute")
		out.Forgets = mentions(s.Text, "deallocate")
		out.ForgetsAll = out.Forgets
	case "COPY":
		out.Settles = true
		out.Touches = configures(s.Text)
	case "EXECUTE": // maybe of a set_config
		out.Steady, out.Touches = true, namesToken(s.Text) || configures(s.Text)
		out.Executes, out.Runs = executedName(s.Text), true
	case "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES", "TABLE", "WITH", "FETCH", "MOVE", "":
		out.Steady, out.Touches = true, configures(s.Text)
	case "CREATE", "DROP", "ALTER":
		out.Class, out.Touches = classifyDefinition(s), configures(s.Text)
		out.Runs = createsTable(s) && contains(s.Text, "execute")
	case "EXPLAIN":
		out.Touches, out.Runs = configures(s.Text), contains(s.Text, "execute")
	default:
		out.Touches = configures(s.Text)
	}
	if out.Class == Begin || out.Class == Free || contains(s.Text, setConfig) {
		out.Keeps, out.ReadOnly = KeepsSnapshot(s.Text), mentions(s.Text, "only")
	}
	out.Tame = out.Class == Work && !out.Touches && tame(s)
	out.Settles = out.Settles || out.Touches
	out.Recodes = out.Recodes || mentions(s.Text, setConfig, "pg_settings") && mentions(s.Text, "encoding", escapedName, escapedText)
	return out
}

// classifyEnd reads COMMIT, END, ABORT, ROLLBACK and PREPARE. The PREPARED ones
// act on another transaction, whose own check was at PREPARE TRANSACTION.
func classifyEnd(s *sqltext.Statement) Class {
	words := significant(s.Text)
	chain := words.chains()
	switch {
	case s.Words("PREPARE", "TRANSACTION"):
		return Commit
	case s.Words("PREPARE"), s.Words("COMMIT", "PREPARED"), s.Words("ROLLBACK", "PREPARED"):
		return Work
	case s.Words("ROLLBACK"), s.Words("ABORT"):
		switch {
		case !s.EndsTransaction():
			return RollbackTo
		case chain:
			return RollbackChain
		}
		return Rollback
	case chain:
		return CommitChain
	}
	return Commit
}

// createsTable reports CREATE TABLE, whose rows may be those of an EXECUTE.
func createsTable(s *sqltext.Statement) bool {
	const far = 4 // CREATE GLOBAL TEMPORARY TABLE
	return s.Verb() == "CREATE" && significant(s.Text).has("TABLE", far)
}

// classifyDefinition finds the statements that commit before they are done.
func classifyDefinition(s *sqltext.Statement) Class {
	if s.Words(s.Verb(), "SUBSCRIPTION") || significant(s.Text).has("CONCURRENTLY", 0) {
		return Apart
	}
	return Work
}

// Steers reports whether a statement changes what is assumed of those behind it.
func (m Meaning) Steers() bool {
	switch m.Class {
	case Begin, Commit, CommitChain, Rollback, RollbackChain, RollbackTo, Apart, Doubtful, Unreadable:
		return true
	case Work, Free, Procedure:
	}
	return m.Touches || m.Forgets || m.Holds || m.Recodes || m.Executes != "" // which may be any of these
}

// NeedsFence reports whether statements of a class are checked before they run.
func (c Class) NeedsFence() bool {
	switch c {
	case Free, Begin, Commit, CommitChain, Rollback, RollbackChain, RollbackTo:
		return false
	case Work, Procedure, Apart, Doubtful, Unreadable:
	}
	return true
}

// tame reports whether a statement that needs the fence, and does not change the
// token, does in a block what it does outside of one.
func tame(s *sqltext.Statement) bool {
	switch s.Verb() {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES", "TABLE", "WITH", "EXECUTE", "", "EXPLAIN", "PREPARE":
		return true
	case "COPY":
		return !significant(s.Text).has("STDIN", 0) // data that is on its way would meet the COMMIT
	}
	return false
}

// holds reports DECLARE … WITH HOLD, whose query runs at COMMIT.
func holds(s *sqltext.Statement) bool {
	w := significant(s.Text)
	for i := 0; i+1 < len(w); i++ {
		if w[i] == "WITH" && w[i+1] == "HOLD" {
			return true
		}
	}
	return false
}
