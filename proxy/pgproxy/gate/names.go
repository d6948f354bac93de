package gate

import (
	"bytes"
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/sqltext"
)

// Prepared statements of the protocol and of SQL share their names: SQL may drop
// one of the protocol's and give its name to something else, and may run it.

// longestName is what the server cuts names to, in bytes.
const longestName = 63

// keyOf reads a name of the protocol's, and returns by what the server tells it
// from others: its beginning.
func keyOf(body []byte) (key, rest []byte) {
	key, rest = name(body)
	key = key[:min(len(key), longestName)]
	if !ascii(stringOf(key)) {
		key = foreignKey
	}
	return key, rest
}

// foreignKey is the one of all names with letters beyond ASCII: which of them are
// one to the server depends on client_encoding.
var foreignKey = []byte{0x80} //nolint:gochecknoglobals // never written to

func foreign(key []byte) bool { return bytes.Equal(key, foreignKey) }

// alike is what all names with letters beyond ASCII mean when one of them means
// st: just work, or it is not known.
func alike(meanings map[string]statement, st statement) statement {
	if _, other := meanings[string(foreignKey)]; st != plain || other {
		return statement{class: doubtful, settles: true}
	}
	return plain
}

// nameIn reads the name of a prepared statement from a token as the server does,
// if that is easily done.
func nameIn(text string, t sqltext.Token) (name string, ok bool) {
	name = text[t.Start:t.Stop]
	switch {
	case !ascii(name):
		return "", false
	case t.Kind == sqltext.Word:
		name = strings.ToLower(name)
	case t.Kind != sqltext.QuotedWord, len(name) < 2:
		return "", false
	default:
		if name = name[1 : len(name)-1]; strings.Contains(name, `"`) {
			return "", false
		}
	}
	return strings.Clone(name), len(name) <= longestName // it is kept longer than the text
}

// droppedName is the name in a DEALLOCATE, "" if that drops all or is not easily
// read.
func droppedName(text string) string {
	scanner := sqltext.NewScanner(text, sqltext.Dialect{})
	scanner.Next()
	t := scanner.Next()
	name, ok := nameIn(text, t)
	if !ok || scanner.Next().Kind != sqltext.End || t.Kind == sqltext.Word && name == "all" {
		return ""
	}
	return name
}

// executedName is the name in an EXECUTE, unreadName if it is not easily read.
func executedName(text string) string {
	scanner := sqltext.NewScanner(text, sqltext.Dialect{})
	scanner.Next()
	t := scanner.Next()
	name, ok := nameIn(text, t)
	if next := scanner.Next(); !ok || next.Kind != sqltext.End && text[next.Start] != '(' {
		return unreadName
	}
	return name
}

// unreadName is no name that a statement can have.
const unreadName = "\x00"

// runs reports whether EXECUTE of that name may run what begins or ends a
// transaction, or otherwise must be known for what it is; unless that is not
// certain yet.
func (m *Machine) runs(name string) (steers, certain bool) {
	switch name {
	case "":
		return false, true
	case unreadName:
		for _, st := range m.statements {
			steers = steers || st.steers()
		}
		return steers, true
	}
	st, certain := m.meaning([]byte(name))
	return st.steers(), certain || m.replies.boundaries == 0
}

// steered is runs for the extended protocol, where it need not be certain.
func (m *Machine) steered(st statement) bool {
	steers, certain := m.runs(st.executes)
	return steers || !certain
}

// steers reports whether a statement changes what is assumed of those behind it.
func (s statement) steers() bool {
	switch s.class {
	case begin, commit, commitChain, rollback, rollbackChain, rollbackTo, apart, doubtful, unreadable:
		return true
	case work, free, procedure:
	}
	return s.touches || s.forgets || s.holds || s.recodes || s.executes != "" // which may be any of these
}

const (
	refusalExecute = "TK007 fence: EXECUTE of a statement that begins or ends a transaction, changes the session, or is EXECUTE, cannot be fenced\nSend the statement itself."
	refusalForeign = "TK007 fence: a statement that begins or ends a transaction, or changes the session, cannot be fenced under a name with letters beyond ASCII\nPrepare it under another name."
)
