package gate

import (
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate/statement"
)

// execute takes an Execute: here a transaction begins or ends.
func (m *Machine) execute(body []byte) Verdict {
	portal, _ := keyOf(body)
	b := &m.batch
	st := m.portal
	if len(portal) != 0 {
		var known bool
		if st, known = m.portals[string(portal)]; !known {
			st = statement.Plain
		}
	}
	if m.mistrust && !b.binds(portal) {
		st = statement.Unknown
	}
	touches := m.touches(st)
	if m.noticed(touches) == never {
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
	if b.wrapped && (st.Class == statement.Commit || st.Class == statement.Rollback) {
		wrap = closed
	}
	m.follow(st)
	b.executed = true
	if touches {
		m.dirty, m.unresolved, b.touched = true, "", b.at == idle
	}
	b.settles, b.resets, b.recodes = b.settles || st.Settles || touches, b.resets || st.Class != statement.Begin, b.recodes || st.Recodes
	m.before(v.Before, false)
	m.prepared = m.prepared && !st.ForgetsAll // behind what goes in front
	m.extendedThat(wrap)
	return v
}

// binds reports whether a portal was bound in the batch.
func (b *batch) binds(portal []byte) bool {
	if len(portal) == 0 {
		return b.bound
	}
	_, bound := b.portals[stringOf(portal)]
	return bound
}

// executeFenced decides what goes in front of an Execute.
func (m *Machine) executeFenced(st statement.Meaning) Verdict {
	b := &m.batch
	switch {
	case b.doubt && st.Class != statement.Free:
		return m.refuse(refusalDoubt)
	case m.steered(st):
		return m.refuse(refusalExecute)
	case b.at == failed:
	case b.at == block && st.Class == statement.CommitChain:
		return m.refuse(refusalChain)
	case b.at == block && (st.Class == statement.Commit || st.Class == statement.Doubtful) && (!b.wrapped || m.kind == Slow):
		b.leaves = true
		return Verdict{Before: Leave}
	case b.at == idle && st.Class == statement.Doubtful:
		return m.refuse(refusalDoubt)
	case b.at == idle && b.touched && st.Class.NeedsFence():
		b.touched = false // it was bound, and checked, before the token changed
		return Verdict{Before: Enter}
	case b.at == idle && !b.checked && st.Class != statement.Begin && st.Class.NeedsFence():
		// Its portal is older than the transaction, so that it cannot run, unless
		// that is not known here.
		b.checked = true
		return Verdict{Before: m.check()}
	}
	return Verdict{}
}

// follow moves the place where the next statement of the batch runs.
func (m *Machine) follow(st statement.Meaning) {
	b := &m.batch
	m.isolate(st)
	switch st.Class {
	case statement.Begin:
		if b.at == idle {
			b.at, m.entered = block, false
		}
	case statement.Commit, statement.Rollback:
		b.at, b.checked, b.wrapped, m.entered = idle, false, false, false
	case statement.CommitChain, statement.RollbackChain:
		m.entered, b.checked = false, false
		if b.at == failed {
			b.at = block
		}
	case statement.RollbackTo:
		if b.at == failed {
			b.at = block
		}
	case statement.Doubtful:
		m.entered, b.checked, b.doubt = false, false, true
	case statement.Work, statement.Free, statement.Procedure, statement.Apart, statement.Unreadable:
		b.checked = b.checked && (st.Steady || st.Class == statement.Free)
	}
	if st.Forgets {
		m.forgetNames(st.Drops)
	}
}

// forgetNames takes DEALLOCATE and DISCARD, after which a name, or all if that is
// empty, may be prepared by SQL as something else than what is known of it here.
func (m *Machine) forgetNames(only string) {
	if only != "" {
		if _, known := m.statements[only]; known {
			m.statements[only] = statement.Unknown
		}
		return
	}
	for name := range m.statements {
		m.statements[name] = statement.Unknown
	}
}
