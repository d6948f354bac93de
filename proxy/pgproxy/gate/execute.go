package gate

import (
	"slices"
)

// execute takes an Execute: here a transaction begins or ends.
func (m *Machine) execute(body []byte) Verdict {
	portal, _ := keyOf(body)
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
	b.settles, b.resets, b.recodes = b.settles || st.settles, b.resets || st.class != begin, b.recodes || st.recodes
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
	m.isolate(st)
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
