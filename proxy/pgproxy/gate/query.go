package gate

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/sqltext"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate/statement"
)

// query decides about a Query.
func (m *Machine) query(text string) Verdict {
	b := &m.batch
	p := planQuery(text, m.dialect, b.at, m.armed)
	m.armed = p.armed
	switch m.noticed(p.touches) {
	case late:
		return Verdict{Do: Wait}
	case never:
		p.refusal = refusalTouches
	case inTime:
	}
	if m.kind == Pass {
		m.isolatePlan(p)
		m.forget(p)
		m.endBatch(p.settles || p.open || b.began, query)
		return Verdict{}
	}
	if do := m.vet(&p, text); do != Forward {
		return Verdict{Do: do}
	}
	m.isolatePlan(p)
	v := m.judge(p)
	if p.touches {
		m.dirty, m.unresolved = true, ""
	}
	m.entered = p.open && !p.fresh && (m.entered || v.Before&^Refusal != 0)
	m.before(v.Before, true)
	m.forget(p)
	if v.After != Nothing {
		v.Anew = p.forgetsAll
		m.replies.push(reply{kind: wrapped})
		m.endBatch(true, commitReply)
		return v
	}
	m.endBatch(v.Before != 0 || p.settles || p.open || b.at != idle || b.began, query)
	return v
}

// forget takes what a Query makes the server forget.
func (m *Machine) forget(p plan) {
	if p.forgets {
		m.forgetNames(p.drops)
	}
	m.prepared = m.prepared && !p.forgetsAll
}

// vet looks for what must be known before a Query is judged, and for what cannot
// be fenced for reasons beside the plan.
func (m *Machine) vet(p *plan, text string) Do {
	b := &m.batch
	switch {
	case b.began && m.replies.size > 0:
		return Flush // a failure would have the server skip this
	case !b.began && m.replies.boundaries > 0 && (!statement.ASCII(text) || backslash(text)):
		return Wait // what is under way may change how this is read
	case !b.began && m.replies.boundaries > 0 && len(p.executes) > manyNames:
		return Wait // each would be looked for among the changes that are under way
	case b.wrapped, b.at == idle && (b.executed || b.began && p.procedure):
		// Behind an Execute, PostgreSQL 18 leaves a block open at the end of a
		// Query that did not begin one, and commits it at the next Sync.
		p.refusal = refusalUnsynced
	case b.doubt:
		p.refusal = refusalDoubt
	case m.unsafe && !statement.ASCII(text):
		p.refusal = refusalEncoding
	case m.liftsLate(p):
		p.refusal = refusalLifts
	case b.resets && !m.legible(p, text):
		p.refusal = refusalIllegible
	default:
		for _, name := range p.executes {
			steers, certain := m.runs(name)
			switch {
			case !certain:
				return Wait
			case steers:
				p.refusal = refusalExecute
			}
		}
	}
	if b.at == idle && m.dirty && !b.began && p.refusal == "" && (p.work || p.begins) {
		if m.unresolved == "" {
			return Resolve
		}
		p.refusal, m.unresolved = m.unresolved, ""
	}
	return Forward
}

// manyNames is how many names a Query may run that are looked for one by one.
const manyNames = 16

// judge decides what goes around a Query.
func (m *Machine) judge(p plan) Verdict {
	b := &m.batch
	thawed, thaw := m.thawPlan(p)
	switch {
	case p.refusal != "":
		return Verdict{Before: Refusal, Refusal: p.refusal}
	case thaw:
		return thawed
	case b.at == failed:
	case b.at == block:
		return Verdict{Before: m.inBlock(p)}
	case p.work && p.apart:
		return Verdict{Before: Refusal, Refusal: refusalApart}
	case p.work && b.touched:
		return Verdict{Before: Enter}
	case p.work && !b.checked:
		return m.outside(p)
	}
	return Verdict{}
}

// outside decides about a Query that begins a transaction.
func (m *Machine) outside(p plan) Verdict {
	switch {
	case p.procedure:
		if m.kind == Slow {
			return Verdict{Before: Begin | Enter, After: LeaveCommit}
		}
		return Verdict{Before: Begin | Check, After: Commit}
	case p.open && !p.closes && p.locks && m.locksFirst():
		return Verdict{}
	case p.open && !p.closes:
		return Verdict{Before: m.enter()}
	}
	return Verdict{Before: m.check()}
}

// inBlock decides about a Query inside of a block.
func (m *Machine) inBlock(p plan) Prefix {
	var before Prefix
	if p.work && !m.entered && (!p.ends || m.kind == Slow) && (p.ends || !p.locks || !m.locksFirst()) {
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

// setConfigOID is that function in a FunctionCall.
const setConfigOID = 2078

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

// text is the text of a Query: up to its 0 byte.
func text(body []byte) string {
	if i := bytes.IndexByte(body, 0); i >= 0 {
		body = body[:i]
	}
	return stringOf(body)
}

// legible reports whether a Query behind messages of its own batch is read as the
// server reads it. They may have changed how texts are read, of which the server
// says nothing before ReadyForQuery.
func (m *Machine) legible(p *plan, text string) bool {
	if m.batch.recodes && !statement.ASCII(text) {
		return false
	}
	if !backslash(text) {
		return true
	}
	other := sqltext.Dialect{BackslashQuotes: !m.dialect.BackslashQuotes}
	return reflect.DeepEqual(*p, planQuery(text, other, m.batch.at, m.armed))
}

const refusalIllegible = "TK007 fence: how this text is read may have been changed by messages before it, without Sync in between\nSend Sync first."

func backslash(text string) bool { return strings.IndexByte(text, '\\') >= 0 }
