package gate

import (
	"bytes"
	"encoding/binary"
)

// Client takes the next message of the client's: its type, and its body, of
// which a Bind, Execute or Close needs no more than the names at its start.
// If the answer is Forward, the message is taken as sent.
func (m *Machine) Client(kind byte, body []byte) Verdict {
	switch kind {
	case 'X', 'H', 'p', 'd':
		return Verdict{}
	case 'c', 'f':
		m.copyEnds()
		return Verdict{}
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
// the server copies.
func (m *Machine) copyEnds() {
	switch {
	case m.copyIn:
		m.copyIn = false
	case m.replies.boundaries > 0 || m.batch.began:
		m.copyEnded = append(m.copyEnded, m.sent)
	}
}

// mustWait reports whether a batch cannot begin before replies have come.
func (m *Machine) mustWait() bool {
	if m.replies.boundaries == 0 {
		return false
	}
	return m.kind != Pass && !m.certain
}

// resolve decides whether the token must be looked up before a batch begins. A
// Query is read first: many need no token.
func (m *Machine) resolve(kind byte, body []byte) (v Verdict, decided bool) {
	if !m.dirty || m.kind == Pass || m.batch.at != idle || kind == 'Q' {
		return Verdict{}, false
	}
	if kind == 'P' {
		_, rest := name(body)
		if st := m.classify(text(rest)); st.class != begin && !needsFence(st.class) {
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
	m.replies.push(reply{kind: passed, n: 1, wrap: wrap})
}

// before counts prefixes as sent.
func (m *Machine) before(p Prefix, sync bool) {
	if p == 0 {
		return
	}
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
	m.replies.push(reply{kind: ours, n: n, sync: sync, prepares: prepares, wrap: wrap, rollback: p&(Leave|Begin) != 0 || m.batch.wrapped})
}

// query decides about a Query.
func (m *Machine) query(text string) Verdict {
	b := &m.batch
	p := planQuery(text, m.dialect, b.at)
	switch m.noticed(p.touches) {
	case late:
		return Verdict{Do: Wait}
	case never:
		p.refusal = refusalTouches
	case inTime:
	}
	switch {
	case m.kind == Pass:
	case b.began && m.replies.size > 0:
		return Verdict{Do: Flush} // a failure would have the server skip this
	case b.wrapped, b.at == idle && (b.executed || b.began && p.procedure):
		// Behind an Execute, PostgreSQL 18 leaves a block open at the end of a
		// Query that did not begin one, and commits it at the next Sync.
		p.refusal = refusalUnsynced
	case b.doubt:
		p.refusal = refusalDoubt
	case m.unsafe && !ascii(text):
		p.refusal = refusalEncoding
	default:
		for _, name := range p.executes {
			steers, certain := m.runs(name)
			switch {
			case !certain:
				return Verdict{Do: Wait}
			case steers:
				p.refusal = refusalExecute
			}
		}
	}
	if m.kind == Pass {
		if p.forgets {
			m.forgetNames(p.drops)
		}
		m.endBatch(p.settles || p.open || b.began, query)
		return Verdict{}
	}
	v := Verdict{}
	if b.at == idle && m.dirty && !b.began && p.refusal == "" && (p.work || p.begins) {
		if m.unresolved == "" {
			return Verdict{Do: Resolve}
		}
		p.refusal, m.unresolved = m.unresolved, ""
	}
	thawed, thaw := m.thawPlan(p)
	switch {
	case p.refusal != "":
		v = Verdict{Before: Refusal, Refusal: p.refusal}
	case thaw:
		v = thawed
	case b.at == failed:
	case b.at == block:
		v.Before = m.inBlock(p)
	case p.work && p.apart:
		v = Verdict{Before: Refusal, Refusal: refusalApart}
	case p.work && b.touched:
		v.Before = Enter
	case p.work && !b.checked:
		v = m.outside(p)
	}
	if p.touches {
		m.dirty, m.unresolved = true, ""
	}
	if p.forgets {
		m.forgetNames(p.drops)
	}
	m.entered = p.open && !p.fresh && (m.entered || v.Before&^Refusal != 0)
	m.before(v.Before, true)
	if v.After != Nothing {
		m.replies.push(reply{kind: wrapped})
		m.endBatch(true, commitReply)
		return v
	}
	m.endBatch(v.Before != 0 || p.settles || p.open || b.at != idle || b.began, query)
	return v
}

// outside decides about a Query that begins a transaction.
func (m *Machine) outside(p plan) Verdict {
	switch {
	case p.procedure:
		if m.kind == Slow {
			return Verdict{Before: Begin | Enter, After: LeaveCommit}
		}
		return Verdict{Before: Begin | Check, After: Commit}
	case p.open && !p.closes:
		return Verdict{Before: m.enter()}
	}
	return Verdict{Before: m.check()}
}

// inBlock decides about a Query inside of a block.
func (m *Machine) inBlock(p plan) Prefix {
	var before Prefix
	if p.work && !m.entered && (!p.ends || m.kind == Slow) {
		before = m.enter()
	}
	if p.ends {
		before |= Leave
	}
	return before
}

// check is the prefix of a transaction of one message. One whose token has not
// been looked up, since its series of messages began with what needs none, is
// checked by the setting.
func (m *Machine) check() Prefix {
	if m.kind == Slow || m.dirty {
		return Enter
	}
	return Check
}

// enter is the prefix of a block.
func (m *Machine) enter() Prefix {
	if m.kind == Slow {
		return Enter
	}
	return Present
}

// function decides about a FunctionCall.
func (m *Machine) function(body []byte) Verdict {
	b := &m.batch
	touches := len(body) >= 4 && binary.BigEndian.Uint32(body) == setConfigOID
	noticed := m.noticed(touches)
	if noticed == late {
		return Verdict{Do: Wait}
	}
	if m.kind != Pass && b.began && m.replies.size > 0 {
		return Verdict{Do: Flush}
	}
	v := Verdict{}
	switch {
	case m.kind == Pass:
	case noticed == never:
		v = Verdict{Before: Refusal, Refusal: refusalTouches}
	case b.doubt:
		v = Verdict{Before: Refusal, Refusal: refusalDoubt}
	case b.at == failed:
	case b.wrapped, b.executed && b.at == idle:
		v = Verdict{Before: Refusal, Refusal: refusalUnsynced}
	case b.at == block && !m.entered:
		v.Before, m.entered = m.enter(), true
	case b.at == block:
	case m.thawing() && !touches:
		v = Verdict{Before: Begin | Enter, After: LeaveCommit}
	case b.touched:
		v.Before = Enter
	case !b.checked:
		v.Before = m.check()
	}
	if touches {
		m.dirty, m.unresolved = true, ""
	}
	m.before(v.Before, true)
	if v.After != Nothing {
		m.replies.push(reply{kind: wrapped})
		m.endBatch(true, commitReply)
		return v
	}
	m.endBatch(v.Before != 0 || touches || b.at != idle || b.began, query)
	return v
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
	r := reply{kind: syncReply, number: m.sent, rollback: m.leaveFailed}
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
	m.replies.push(reply{kind: kind})
	m.endBatchState(uncertain)
}

func (m *Machine) endBatchState(uncertain bool) {
	m.certain = m.certain && !uncertain
	m.batch = batch{}
	m.sent++
	m.earlier = len(m.touched)
}

// text is the text of a Query: up to its 0 byte.
func text(body []byte) string {
	if i := bytes.IndexByte(body, 0); i >= 0 {
		body = body[:i]
	}
	return stringOf(body)
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}
