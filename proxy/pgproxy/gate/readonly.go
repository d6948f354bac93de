package gate

import (
	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate/statement"
)

// A session without an exclusive token is told why it cannot write, where it is
// the fence that keeps it from that. The client may have asked for a read-only
// transaction itself, the database may be set so, or the server may be a standby:
// then the server's own words are the whole truth, and a token would not help.
// What a client does in a function is not seen; it then hears of both.

// readOnlyTransaction and its routine are of an error that says so: other errors
// have the code, too, and other languages have other words.
const (
	readOnlyTransaction = "25006"
	preventIfReadOnly   = "PreventCommandIfReadOnly"
)

// explain looks at an error of the client's own that is relayed.
func (m *Machine) explain(body []byte) AnswerDo {
	if m.kind != Slow || m.mayWrite || m.readOnly || m.readOnlyByDefault || m.standby {
		return Relay
	}
	if pgwire.FieldOf(body, pgwire.Code) != readOnlyTransaction || pgwire.FieldOf(body, pgwire.Routine) != preventIfReadOnly {
		return Relay
	}
	return Explain
}

// liftsLate reports whether a Query makes a transaction read-write, which is
// read-only up to there, behind what goes in front of it and takes a snapshot. The
// server would refuse that, though not without the proxy.
func (m *Machine) liftsLate(p *plan) bool {
	switch {
	case !p.lifts || !p.work || p.statements == 1 || m.batch.at == failed:
		return false
	case m.batch.at == block && m.entered, p.locks && (p.keeps || m.locksFirst()):
		return false // nothing goes in front of it
	}
	return m.readOnlyByDefault || p.readOnly || m.batch.at == block && m.readOnly
}

// declare takes a statement of the extended protocol that may make the block
// read-only.
func (m *Machine) declare(st statement.Meaning) {
	m.declared(st.Class == statement.Begin && m.batch.at == idle, st.ReadOnly)
}

// declarePlan takes a Query.
func (m *Machine) declarePlan(p plan) { m.declared(p.opens, p.readOnly) }

// declared: what is under way may still be answered by errors of the block before.
func (m *Machine) declared(opens, readOnly bool) {
	m.readOnly = readOnly || m.readOnly && (!opens || m.replies.boundaries > 0)
}
