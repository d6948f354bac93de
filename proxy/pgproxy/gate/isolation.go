package gate

import "github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate/statement"

// At REPEATABLE READ and SERIALIZABLE a block keeps its first snapshot, and LOCK
// TABLE is what clients have come before it, so that it shows what they have
// locked. There it goes in front of Present and of Enter, which take the snapshot.
// Until the next statement nobody sees then under which admission the block was
// begun; so elsewhere, where each statement has a snapshot of its own, it does not.

// DefaultIsolation says which level blocks of the session have by default.
func (m *Machine) DefaultIsolation(level string) { m.keepsByDefault = statement.KeepsSnapshot(level) }

// locksFirst reports whether LOCK TABLE comes before the block's first snapshot.
// Who may do nothing at all is refused before it.
func (m *Machine) locksFirst() bool {
	return (m.keeps || m.keepsByDefault) && (m.policy != Deny || m.kind != Slow || m.mayWrite)
}

// isolate takes a statement of the extended protocol that may set a level: of the
// block, or of those to come.
func (m *Machine) isolate(st statement.Meaning) {
	m.declare(st)
	switch {
	case st.Class == statement.Begin && m.batch.at == idle:
		m.keeps = st.Keeps
	case !st.Keeps:
	case st.Modes: // of a BEGIN inside of a block, too
		m.keeps = true
	default:
		m.keepsByDefault = true
	}
}

// isolatePlan takes a Query.
func (m *Machine) isolatePlan(p plan) {
	m.declarePlan(p)
	m.keeps = p.keeps || m.keeps && !p.opens
	m.keepsByDefault = m.keepsByDefault || p.keepsByDefault
}
