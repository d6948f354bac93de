package gate

import (
	"bytes"
	"strings"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate/statement"
)

// Prepared statements of the protocol and of SQL share their names: SQL may drop
// one of the protocol's and give its name to something else, and may run it.

// keyOf reads a name of the protocol's, and returns by what the server tells it
// from others: its beginning.
func keyOf(body []byte) (key, rest []byte) {
	key, rest = name(body)
	key = key[:min(len(key), statement.LongestName)]
	if !statement.ASCII(stringOf(key)) {
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
func alike(meanings map[string]statement.Meaning, st statement.Meaning) statement.Meaning {
	if _, other := meanings[string(foreignKey)]; st != statement.Plain || other {
		return statement.Unknown
	}
	return statement.Plain
}

// Reserve says how the names of the proxy's own statements begin, COMMIT among
// them: a client that uses one runs what it does not say, and if it gives one to
// something else they are to be prepared again.
func (m *Machine) Reserve(prefix string) { m.reserved = prefix }

func (m *Machine) reserves(name string) bool {
	return m.reserved != "" && strings.HasPrefix(name, m.reserved)
}

// runs reports whether EXECUTE of that name may run what begins or ends a
// transaction, or otherwise must be known for what it is; unless that is not
// certain yet.
func (m *Machine) runs(name string) (steers, certain bool) {
	switch name {
	case "":
		return false, true
	case statement.EscapedName:
		return true, true // maybe one that is reserved
	case statement.UnreadName:
		for _, st := range m.statements {
			steers = steers || st.Steers()
		}
		return steers, true
	}
	st, certain := m.meaning([]byte(name))
	return st.Steers(), certain || m.replies.boundaries == 0
}

// steered is runs for the extended protocol, where it need not be certain.
func (m *Machine) steered(st statement.Meaning) bool {
	steers, certain := m.runs(st.Executes)
	return steers || !certain
}

const (
	refusalExecute = "TK007 fence: EXECUTE of a statement that begins or ends a transaction, changes the session, or is EXECUTE, cannot be fenced\nSend the statement itself."
	refusalForeign = "TK007 fence: a statement that begins or ends a transaction, or changes the session, cannot be fenced under a name with letters beyond ASCII\nPrepare it under another name."
)
