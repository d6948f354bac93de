package gate

import (
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/sqltext"
)

// Prepared statements of the protocol and of SQL share their names: SQL may drop
// one of the protocol's and give its name to something else, and may run it.

// longestName is what the server cuts names to, in bytes.
const longestName = 63

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
	return s.touches || s.forgets || s.holds || s.recodes
}

const refusalExecute = "TK007 fence: EXECUTE of a statement that begins or ends a transaction, or changes the session, cannot be fenced\nSend the statement itself."
