package gate

import (
	"strings"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate/statement"
)

// maxTouched is how many changes of names are kept that may not come to pass:
// they are searched one by one.
const maxTouched = 1024

// crowded decides about a message that makes name mean st when no further change
// can be kept: it waits for those that are under way, and if all of them are of
// the batch that it belongs to, it is refused.
func (m *Machine) crowded(name []byte, st statement.Meaning) (v Verdict, decided bool) {
	if len(m.touched) < maxTouched {
		return Verdict{}, false
	}
	was := m.unnamed
	if len(name) > 0 {
		was = m.named(stringOf(name))
	}
	switch {
	case was == st && !m.pending(name):
		return Verdict{}, false
	case m.replies.boundaries > 0:
		return Verdict{Do: Wait}, true
	}
	return m.refuse(refusalCrowded), true
}

// define says what a name means from here on. What is just work, as most is, is
// not kept.
func (m *Machine) define(name []byte, st statement.Meaning) {
	if len(name) == 0 {
		m.touch("", m.unnamed, st)
		m.unnamed = st
		return
	}
	if m.reserves(stringOf(name)) {
		m.prepared = false
		return
	}
	was := m.named(stringOf(name))
	if foreign(name) {
		st = alike(m.statements, st)
	}
	if was == st && !m.pending(name) {
		return
	}
	owned := strings.Clone(stringOf(name))
	m.touch(owned, was, st)
	if st == statement.Plain {
		delete(m.statements, owned)
	} else {
		m.statements[owned] = st
	}
}

// touch notes a change that may not come to pass: what one batch does with one
// name is one change.
func (m *Machine) touch(name string, was, is statement.Meaning) {
	for i := m.earlier; i < len(m.touched); i++ {
		if t := &m.touched[i]; t.name == name {
			t.is, t.message = is, m.passed
			return
		}
	}
	if was != is || m.pending([]byte(name)) {
		m.touched = append(m.touched, touch{boundary: m.sent, message: m.passed, name: name, is: is})
	}
}

// pending reports whether an earlier batch changed what a name means, which may
// not come to pass: if it does not, what is said of the name now still holds.
func (m *Machine) pending(name []byte) bool {
	for _, t := range m.touched[:m.earlier] {
		if t.name == stringOf(name) {
			return true
		}
	}
	return false
}

// meaning returns what a name means, and whether that is certain by now.
func (m *Machine) meaning(name []byte) (st statement.Meaning, certain bool) {
	if m.pending(name) && !m.definedHere(name) {
		return statement.Meaning{}, false
	}
	if len(name) == 0 {
		return m.unnamed, true
	}
	return m.named(stringOf(name)), true
}

// named is what a name that is not empty means, as far as is known.
func (m *Machine) named(name string) statement.Meaning {
	if st, known := m.statements[name]; known {
		return st
	}
	if m.reserves(name) {
		return statement.Unknown
	}
	return statement.Plain
}

// definedHere reports whether the current batch says what name means.
func (m *Machine) definedHere(name []byte) bool {
	for _, t := range m.touched[m.earlier:] {
		if t.name == stringOf(name) {
			return true
		}
	}
	return false
}
