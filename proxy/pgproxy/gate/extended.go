package gate

import (
	"bytes"
	"slices"
	"strings"
	"unsafe"

	"github.com/fenceproxy/fenceproxy/internal/sqltext"
)

// stringOf is the text of body, which must not change while that is in use.
func stringOf(body []byte) string { return unsafe.String(unsafe.SliceData(body), len(body)) }

// name cuts the name at the start of body.
func name(body []byte) (name, rest []byte) {
	if i := bytes.IndexByte(body, 0); i >= 0 {
		return body[:i], body[i+1:]
	}
	return body, nil
}

// parse takes a Parse: what it prepares is known from now on, if the server
// does it.
func (m *Machine) parse(body []byte) Verdict {
	name, rest := name(body)
	sql := text(rest)
	st := m.classify(sql)
	switch m.noticed(st.touches) {
	case late:
		return Verdict{Do: Wait}
	case never:
		return m.refuse(refusalTouches)
	case inTime:
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
	m.kind = Slow
	if !m.batch.sure {
		return never
	}
	return inTime
}

// classify reads the only statement of a Parse. If there are more the server
// refuses it.
func (m *Machine) classify(sql string) statement {
	st := statement{class: free} // nothing
	for s := range sqltext.Statements(sql, m.dialect) {
		st = classify(&s)
		break
	}
	if m.kind != Pass && m.unsafe && !ascii(sql) {
		st = statement{class: unreadable, settles: true}
	}
	return st
}

// define says what a name means from here on. What is just work, as most is, is
// not kept.
func (m *Machine) define(name []byte, st statement) {
	if len(name) == 0 {
		m.touch("", m.unnamed, st)
		m.unnamed = st
		return
	}
	was := m.named(stringOf(name))
	if was == st && !m.pending(name) {
		return
	}
	owned := strings.Clone(stringOf(name))
	m.touch(owned, was, st)
	if st == plain {
		delete(m.statements, owned)
	} else {
		m.statements[owned] = st
	}
}

// touch notes a change that may not come to pass: what one batch does with one
// name is one change.
func (m *Machine) touch(name string, was, is statement) {
	for i := m.earlier; i < len(m.touched); i++ {
		if t := &m.touched[i]; t.name == name {
			t.is = is
			return
		}
	}
	if was != is || m.pending([]byte(name)) {
		m.touched = append(m.touched, touch{boundary: m.sent, name: name, is: is})
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
func (m *Machine) meaning(name []byte) (st statement, certain bool) {
	if m.pending(name) && !m.definedHere(name) {
		return statement{}, false
	}
	if len(name) == 0 {
		return m.unnamed, true
	}
	return m.named(stringOf(name)), true
}

// named is what a name that is not empty means, as far as is known.
func (m *Machine) named(name string) statement {
	if st, known := m.statements[name]; known {
		return st
	}
	return plain
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

// bind takes a Bind: here a statement takes its snapshot.
func (m *Machine) bind(body []byte) Verdict {
	portal, rest := name(body)
	stmt, _ := name(rest)
	st, certain := m.meaning(stmt)
	if !certain && m.replies.boundaries > 0 {
		return Verdict{Do: Wait}
	}
	v := Verdict{}
	switch b := &m.batch; st.class {
	case free, commit, commitChain, rollback, rollbackChain, rollbackTo:
	case begin:
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
func (m *Machine) bindWork(st statement) Verdict {
	b := &m.batch
	switch {
	case m.kind == Pass:
		return Verdict{}
	case b.doubt:
		return m.refuse(refusalDoubt)
	case b.at == failed:
		return Verdict{}
	case st.class == unreadable:
		return m.refuse(refusalEncoding)
	case m.steered(st):
		return m.refuse(refusalExecute)
	case st.holds && m.thawing():
		return m.refuse(refusalHold)
	case b.at == block:
		if m.entered {
			return Verdict{}
		}
		m.entered = true
		return Verdict{Before: m.enter()}
	case st.class == doubtful:
		return m.refuse(refusalDoubt)
	case st.class == apart:
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
	if st.class == procedure || st.tame && m.thawing() {
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
func (m *Machine) bound(portal []byte, st statement) {
	if len(portal) == 0 {
		m.portal, m.batch.bound = st, true
		return
	}
	if m.mistrust {
		m.batch.portals = append(m.batch.portals, string(portal))
	}
	if was, known := m.portals[string(portal)]; known && was != st || st != plain {
		m.portals[strings.Clone(stringOf(portal))] = st
	}
}

// execute takes an Execute: here a transaction begins or ends.
func (m *Machine) execute(body []byte) Verdict {
	portal, _ := name(body)
	b := &m.batch
	st := m.portal
	if len(portal) != 0 {
		var known bool
		if st, known = m.portals[string(portal)]; !known {
			st = plain
		}
	}
	if m.mistrust && !b.binds(portal) {
		st = statement{class: doubtful, settles: true}
	}
	if m.noticed(st.touches) == never {
		return m.refuse(refusalTouches)
	}
	v := Verdict{}
	if m.kind != Pass {
		v = m.executeFenced(st)
		if v.Do != Forward || v.Before&Refusal != 0 {
			return v
		}
	}
	wrap := asItWas
	if b.wrapped && (st.class == commit || st.class == rollback) {
		wrap = closed
	}
	m.follow(st)
	b.executed = true
	if st.touches {
		m.dirty, m.unresolved, b.touched = true, "", b.at == idle
	}
	b.settles = b.settles || st.settles
	m.before(v.Before, false)
	m.extendedThat(wrap)
	return v
}

// binds reports whether a portal was bound in the batch.
func (b *batch) binds(portal []byte) bool {
	if len(portal) == 0 {
		return b.bound
	}
	return slices.Contains(b.portals, stringOf(portal))
}

// executeFenced decides what goes in front of an Execute.
func (m *Machine) executeFenced(st statement) Verdict {
	b := &m.batch
	switch {
	case b.doubt && st.class != free:
		return m.refuse(refusalDoubt)
	case m.steered(st):
		return m.refuse(refusalExecute)
	case b.at == failed:
	case b.at == block && st.class == commitChain:
		return m.refuse(refusalChain)
	case b.at == block && (st.class == commit || st.class == doubtful) && (!b.wrapped || m.kind == Slow):
		b.leaves = true
		return Verdict{Before: Leave}
	case b.at == idle && st.class == doubtful:
		return m.refuse(refusalDoubt)
	case b.at == idle && b.touched && needsFence(st.class):
		b.touched = false // it was bound, and checked, before the token changed
		return Verdict{Before: Enter}
	case b.at == idle && !b.checked && st.class != begin && needsFence(st.class):
		// Its portal is older than the transaction, so that it cannot run, unless
		// that is not known here.
		b.checked = true
		return Verdict{Before: m.check()}
	}
	return Verdict{}
}

func needsFence(c class) bool {
	switch c {
	case free, begin, commit, commitChain, rollback, rollbackChain, rollbackTo:
		return false
	case work, procedure, apart, doubtful, unreadable:
	}
	return true
}

// follow moves the place where the next statement of the batch runs.
func (m *Machine) follow(st statement) {
	b := &m.batch
	switch st.class {
	case begin:
		if b.at == idle {
			b.at, m.entered = block, false
		}
	case commit, rollback:
		b.at, b.checked, b.wrapped, m.entered = idle, false, false, false
	case commitChain, rollbackChain:
		m.entered, b.checked = false, false
		if b.at == failed {
			b.at = block
		}
	case rollbackTo:
		if b.at == failed {
			b.at = block
		}
	case doubtful:
		m.entered, b.checked, b.doubt = false, false, true
	case work, free, procedure, apart, unreadable:
		b.checked = b.checked && (st.steady || st.class == free)
	}
	if st.forgets {
		m.forgetNames(st.drops)
	}
	if st.forgetsAll {
		m.prepared = false
	}
}

// forgetNames takes DEALLOCATE and DISCARD, after which a name, or all if that is
// empty, may be prepared by SQL as something else than what is known of it here.
func (m *Machine) forgetNames(only string) {
	for name := range m.statements {
		if only == "" || only == name {
			m.statements[name] = statement{class: doubtful, settles: true}
		}
	}
}

// close takes a Close.
func (m *Machine) close(body []byte) Verdict {
	if len(body) > 1 && body[0] == 'S' {
		name, _ := name(body[1:])
		m.define(name, plain)
	}
	m.extended()
	return Verdict{}
}
