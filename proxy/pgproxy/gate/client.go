package gate

import "github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate/statement"

// Client takes the next message of the client's: its type, and its body, of
// which a Bind, Execute or Close needs no more than the names at its start.
// If the answer is Forward, the message is taken as sent.
func (m *Machine) Client(kind byte, body []byte) Verdict {
	switch kind {
	case 'X', 'H', 'p', 'd':
		return Verdict{}
	case 'c', 'f':
		return m.copyEnds()
	case 'S':
		return m.sync()
	}
	switch {
	case m.skipping:
		return Verdict{}
	case m.copyIn:
		return Verdict{Do: Violation}
	}
	if !m.batch.began {
		if m.mustWait() {
			return Verdict{Do: Wait}
		}
		m.batch = batch{at: m.at, sure: m.certain || m.replies.boundaries == 0}
		if v, decided := m.resolve(kind, body); decided {
			return v
		}
	}
	switch kind {
	case 'Q':
		return m.query(text(body))
	case 'F':
		return m.function(body)
	case 'P':
		return m.parse(body)
	case 'B':
		return m.bind(body)
	case 'E':
		return m.execute(body)
	case 'C':
		return m.close(body)
	}
	m.extended() // 'D', and what the server will not know either
	return Verdict{}
}

// copyEnds takes CopyDone and CopyFail, which may come before it is known that
// the server copies. One that comes when nothing is under way ends nothing.
func (m *Machine) copyEnds() Verdict {
	switch {
	case m.copyIn:
		m.copyIn = false
	case m.replies.size == 0 || m.skipping:
		m.copyEnded = m.copyEnded[:0]
	case len(m.copyEnded) >= maxCopies:
		return Verdict{Do: Flush}
	default:
		m.copyEnded = append(m.copyEnded, m.sent)
	}
	return Verdict{}
}

// maxCopies is of how many ends the server may not have said yet whether it
// takes them: a client may send them as fast as it can, and they need no copy.
const maxCopies = 4096

// mustWait reports whether a batch cannot begin before replies have come.
func (m *Machine) mustWait() bool {
	switch n := m.replies.boundaries; {
	case n == 0:
		return false
	case n >= maxBoundaries:
		return true
	}
	return m.kind != Pass && !m.certain
}

// maxBoundaries is how many boundaries may be under way: what is known of one
// takes more memory than the Sync that it came of.
const maxBoundaries = 4096

// resolve decides whether the token must be looked up before a batch begins. A
// Query is read first: many need no token.
func (m *Machine) resolve(kind byte, body []byte) (v Verdict, decided bool) {
	if !m.dirty || m.kind == Pass || m.batch.at != idle || kind == 'Q' {
		return Verdict{}, false
	}
	if kind == 'P' {
		_, rest := name(body)
		if st := m.classify(text(rest)); st.Class != statement.Begin && !st.Class.NeedsFence() {
			return Verdict{}, false
		}
	}
	if m.unresolved == "" {
		return Verdict{Do: Resolve}, true
	}
	refusal := m.unresolved
	m.unresolved = ""
	if kind != 'F' {
		return m.refuse(refusal), true
	}
	m.before(Refusal, true)
	m.endBatch(true, query)
	return Verdict{Before: Refusal, Refusal: refusal}, true
}

// extended counts a message of the extended protocol as sent.
func (m *Machine) extended() { m.extendedThat(asItWas) }

func (m *Machine) extendedThat(wrap wrapping) {
	m.batch.began = true
	m.passed++
	m.replies.push(reply{kind: passed, n: 1, wrap: wrap})
}

// before counts prefixes as sent.
func (m *Machine) before(p Prefix, sync bool) {
	if p == 0 {
		return
	}
	m.number++
	n, prepares := 0, !m.prepared
	if prepares {
		n = 2 * OwnStatements
		m.prepared, m.batch.settles = true, true // what comes behind it relies on them
	}
	for _, each := range []struct {
		prefix      Prefix
		completions int
	}{{Begin, 3}, {Check, 2}, {Enter, 2}, {Present, 2}, {Leave, 2}, {Refusal, 2}, {End, 3}} {
		if p&each.prefix != 0 {
			n += each.completions
		}
	}
	wrap := asItWas
	switch {
	case p&End != 0:
		wrap = closed
	case p&Begin != 0 && !sync:
		wrap = opened
	}
	m.replies.push(reply{kind: ours, number: m.number, n: n, sync: sync, prepares: prepares, wrap: wrap, rollback: p&(Leave|Begin) != 0 || m.batch.wrapped})
}

// sync ends a batch.
func (m *Machine) sync() Verdict {
	if m.copyIn {
		return Verdict{} // the server ignores it
	}
	if !m.batch.began && !m.skipping && m.mustWait() {
		return Verdict{Do: Wait}
	}
	if !m.batch.began {
		m.batch = batch{at: m.at, sure: m.certain || m.replies.boundaries == 0}
	}
	v := Verdict{}
	b := &m.batch
	r := reply{kind: syncReply, before: m.sent, rollback: m.leaveFailed}
	m.leaveFailed = false
	if b.wrapped && !m.skipping && b.at == block {
		v.Before = End
		if m.kind == Slow {
			v.Before |= Leave
		}
		m.before(v.Before, false)
		b.at, m.entered = idle, false
	}
	m.skipping = false
	m.replies.push(r)
	m.endBatchState(b.settles || b.leaves || b.wrapped || b.at != idle || m.at != idle)
	return v
}

// endBatch ends a batch with a boundary of that kind.
func (m *Machine) endBatch(uncertain bool, kind replyKind) {
	m.replies.push(reply{kind: kind, number: m.number})
	m.endBatchState(uncertain)
}

func (m *Machine) endBatchState(uncertain bool) {
	m.certain = m.certain && !uncertain
	m.batch = batch{}
	m.sent++
	m.earlier = len(m.touched)
}
