package gate

import (
	"bytes"
	"strings"
	"unsafe"

	"github.com/fenceproxy/fenceproxy/internal/sqltext"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate/statement"
)

// stringOf is the text of body, which must not change while that is in use.
func stringOf(body []byte) string {
	return unsafe.String(unsafe.SliceData(body), len(body)) //nolint:gosec // statements of any size are read, and not copied
}

// name cuts the name at the start of body.
func name(body []byte) (name, rest []byte) {
	name, rest, _ = bytes.Cut(body, []byte{0})
	return name, rest
}

// parse takes a Parse: what it prepares is known from now on, if the server
// does it.
func (m *Machine) parse(body []byte) Verdict {
	name, rest := keyOf(body)
	sql := text(rest)
	st := m.classify(sql)
	m.armed = m.armed || st.Arms || st.Touches && len(name) > 0
	switch m.noticed(m.touches(st)) {
	case late:
		return Verdict{Do: Wait}
	case never:
		return m.refuse(refusalTouches)
	case inTime:
	}
	if m.kind != Pass && foreign(name) && st != statement.Plain {
		return m.refuse(refusalForeign)
	}
	if v, decided := m.crowded(name, st); decided {
		return v
	}
	m.define(name, st)
	m.extended()
	return Verdict{}
}

// notice is whether a change of the token in a session that was not fenced is
// noticed when the place where it happens is known.
type notice uint8

const (
	inTime notice = iota
	late          // it is known after the replies that are under way
	never
)

// noticed begins to follow a session under Allow when its token may change.
func (m *Machine) noticed(touches bool) notice {
	switch {
	case m.kind != Pass || !touches:
		return inTime
	case m.replies.boundaries > 0 && !m.batch.began:
		return late
	}
	m.kind, m.unfenced = Slow, true
	if !m.batch.sure {
		return never
	}
	return inTime
}

// touches reports whether a statement may change the token, as far as is known of
// what it runs.
func (m *Machine) touches(st statement.Meaning) bool { return st.Touches || st.Runs && m.armed }

// classify reads the only statement of a Parse. If there are more the server
// refuses it.
func (m *Machine) classify(sql string) statement.Meaning {
	st := statement.Meaning{Class: statement.Free} // nothing
	for s := range sqltext.Statements(sql, m.dialect) {
		st = statement.Of(&s)
		break
	}
	if m.kind != Pass && m.unsafe && !statement.ASCII(sql) {
		st = statement.Meaning{Class: statement.Unreadable, Settles: true}
	}
	return st
}

// bind takes a Bind: here a statement takes its snapshot.
func (m *Machine) bind(body []byte) Verdict {
	portal, rest := keyOf(body)
	stmt, _ := keyOf(rest)
	st, certain := m.meaning(stmt)
	if !certain && m.replies.boundaries > 0 {
		return Verdict{Do: Wait}
	}
	v := Verdict{}
	switch b := &m.batch; st.Class {
	case statement.Free, statement.Commit, statement.CommitChain, statement.Rollback, statement.RollbackChain, statement.RollbackTo:
	case statement.Begin:
		switch {
		case m.kind == Pass:
		case b.at == idle && b.touched:
			return m.refuse(refusalTouches)
		case b.wrapped:
			return m.refuse(refusalBegin)
		}
	default:
		v = m.bindWork(st)
		if v.Do != Forward || v.Before&Refusal != 0 {
			return v
		}
	}
	m.bound(portal, st)
	m.before(v.Before, false)
	m.extended()
	return v
}

// bindWork decides what goes in front of a statement that needs the fence.
func (m *Machine) bindWork(st statement.Meaning) Verdict {
	b := &m.batch
	switch {
	case m.kind == Pass:
		return Verdict{}
	case b.doubt:
		return m.refuse(refusalDoubt)
	case b.at == failed:
		return Verdict{}
	case st.Class == statement.Unreadable:
		return m.refuse(refusalEncoding)
	case m.steered(st):
		return m.refuse(refusalExecute)
	case st.Holds && m.thawing():
		return m.refuse(refusalHold)
	case b.at == block:
		if m.entered || st.Locks && m.locksFirst() {
			return Verdict{}
		}
		m.entered = true
		return Verdict{Before: m.enter()}
	case st.Class == statement.Doubtful:
		return m.refuse(refusalDoubt)
	case st.Class == statement.Apart:
		return m.refuse(refusalApart)
	}
	v := Verdict{}
	switch {
	case b.touched:
		v.Before, b.touched = Enter, false
	case !b.checked:
		v.Before = m.check()
	}
	b.checked = true
	if st.Class == statement.Procedure || st.Tame && m.thawing() && (!m.unfenced || !m.touches(st)) {
		v.Before |= Begin
		b.at, b.wrapped, m.entered = block, true, true
	}
	return v
}

// refuse has the server fail instead of what the client asks for; it then skips
// what comes up to the Sync.
func (m *Machine) refuse(refusal string) Verdict {
	m.before(Refusal, false)
	m.extended()
	m.batch.settles = true
	return Verdict{Before: Refusal, Refusal: refusal}
}

// bound says what a portal is from here on.
func (m *Machine) bound(portal []byte, st statement.Meaning) {
	if len(portal) == 0 {
		m.portal, m.batch.bound = st, true
		return
	}
	if foreign(portal) {
		st = alike(m.portals, st)
	}
	if m.mistrust {
		if m.batch.portals == nil {
			m.batch.portals = map[string]struct{}{}
		}
		m.batch.portals[string(portal)] = struct{}{}
	}
	if was, known := m.portals[string(portal)]; known && was != st || st != statement.Plain {
		m.portals[strings.Clone(stringOf(portal))] = st
	}
}

// close takes a Close.
func (m *Machine) close(body []byte) Verdict {
	if len(body) > 1 && body[0] == 'S' {
		name, _ := keyOf(body[1:])
		if v, decided := m.crowded(name, statement.Plain); decided {
			return v
		}
		m.define(name, statement.Plain)
	}
	m.extended()
	return Verdict{}
}
