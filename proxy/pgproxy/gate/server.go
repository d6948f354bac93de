package gate

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
)

// Answer is what to do with a message of the server's, and after it.
type Answer struct {
	Do   AnswerDo
	Then Then
}

// AnswerDo is what to do with a message of the server's.
type AnswerDo uint8

const (
	// Relay it to the client.
	Relay AnswerDo = iota
	// Drop it.
	Drop
	// Strip what it says of where the check was called, and relay it.
	Strip
	// Keep it until Release or Discard.
	Keep
	// Collect it for the exchange of the proxy's own.
	Collect
)

// Then is what to do after a message of the server's.
type Then uint8

const (
	// Nothing more.
	None Then = iota
	// Sync is to be sent to the server.
	Sync
	// Rollback, an exchange that ends a failed block, is to be sent.
	Rollback
	// SyncRollback is both.
	SyncRollback
	// Release what was kept: relay it.
	Release
	// Discard what was kept.
	Discard
	// Broken: the server has said what it cannot have said. The session must end.
	Broken
)

// Server takes the next message of the server's: its type, and its body, of
// which only ReadyForQuery, CommandComplete, ErrorResponse and ParameterStatus
// need more than nothing.
func (m *Machine) Server(kind byte, body []byte) Answer {
	r := m.replies.first()
	if r != nil && r.kind == own {
		return m.collect(kind, body)
	}
	switch kind {
	case 'A', 'N':
		return Answer{}
	case 'S':
		m.parameter(body)
		return Answer{}
	}
	if r == nil && kind == 'E' {
		return Answer{} // the last word of a server that shuts down
	}
	if r == nil {
		return Answer{Then: Broken}
	}
	switch kind {
	case 'Z':
		return m.ready(body)
	case 'E':
		return m.failed(body)
	case 'G':
		m.copies(r)
		return Answer{}
	case 'C':
		m.forgets(body)
	}
	switch r.kind {
	case passed, ours:
		if !completes(kind) {
			return Answer{}
		}
		do := Relay
		if r.kind == ours {
			do = Drop
		}
		if r.n--; r.n == 0 && r.wrap != asItWas {
			m.wrapOpen = r.wrap == opened
		}
		if r.n == 0 {
			m.replies.pop()
		}
		return Answer{Do: do}
	case wrapped:
		if kind == 'C' {
			return Answer{Do: Keep}
		}
	case commitReply:
		return m.committed(kind, body)
	case dropped, cleanup:
		return Answer{Do: Drop}
	case query, syncReply, own:
	}
	return Answer{}
}

// copies takes CopyInResponse: up to CopyDone or CopyFail the server ignores Sync.
func (m *Machine) copies(r *reply) {
	end := m.sent
	if m.copyIn = len(m.copyEnded) == 0; !m.copyIn {
		end = m.copyEnded[0]
		m.copyEnded = m.copyEnded[:copy(m.copyEnded, m.copyEnded[1:])]
	}
	if r.kind == passed {
		m.answered += m.replies.dropSyncs(end)
	}
}

// completes reports whether a message is the last one of the reply to a message
// of the extended protocol.
func completes(kind byte) bool {
	switch kind {
	case '1', '2', '3', 'C', 'I', 's', 'T', 'n':
		return true
	}
	return false
}

// committed takes a reply to the COMMIT behind a wrapped Query.
func (m *Machine) committed(kind byte, body []byte) Answer {
	if kind == 'C' && bytes.HasPrefix(body, []byte("COMMIT")) {
		return Answer{Do: Drop, Then: Release}
	}
	return Answer{Do: Drop}
}

// forgets sees the ends of statements that drop those of the proxy's own.
func (m *Machine) forgets(body []byte) {
	switch {
	case bytes.HasPrefix(body, []byte("DISCARD ALL")), bytes.HasPrefix(body, []byte("DEALLOCATE ALL")):
		m.prepared = false
		m.dirty = m.dirty || body[1] == 'I'
	}
}

// failed takes an ErrorResponse.
func (m *Machine) failed(body []byte) Answer {
	r := m.replies.first()
	switch r.kind {
	case query, wrapped:
		m.copyIn, m.wrapFailed = false, r.kind == wrapped
		return Answer{}
	case commitReply:
		if m.wrapFailed { // in a failed block there is no Leave either; the client knows
			return Answer{Do: Drop}
		}
		return Answer{Do: Strip, Then: Discard}
	case dropped, cleanup:
		return Answer{Do: Drop}
	case ours, passed, syncReply, own:
	}
	// From here on the server skips up to the next Sync.
	m.copyIn = false
	m.doubt()
	if r.kind != ours {
		if r.kind != syncReply { // an error at commit
			m.leaveFailed = m.wrapOpen
			m.skip()
		}
		return Answer{}
	}
	failed := *r
	switch code := pgwire.FieldOf(body, pgwire.Code); {
	case code == "26000":
		m.prepared = false
	case !strings.HasPrefix(code, "TK0"):
		m.dirty = true // the ticket may be of a fence that is not there any more
	}
	if failed.sync {
		return m.failedQuery(failed)
	}
	m.leaveFailed = failed.rollback || m.wrapOpen
	m.skip()
	return Answer{Do: Strip}
}

// skip drops the replies that will not come. If the Sync at which they go on has
// been sent it is known what to do then.
func (m *Machine) skip() {
	sent, unprepared := m.replies.skipToSync()
	m.prepared = m.prepared && !unprepared
	if sent {
		if m.leaveFailed {
			m.replies.first().rollback = true
		}
		m.leaveFailed = false
		return
	}
	m.skipping = true
}

// failedQuery deals with the failure of a prefix of a Query. Nothing else is
// under way.
func (m *Machine) failedQuery(r reply) Answer {
	wrappedByUs := false
	for m.replies.size > 0 {
		last := m.replies.pop()
		m.prepared = m.prepared && !last.prepares
		wrappedByUs = wrappedByUs || last.kind == wrapped
	}
	switch {
	case wrappedByUs: // its Sync has been sent, behind the COMMIT
		m.replies.push(reply{kind: syncReply, rollback: true})
		return Answer{Do: Strip}
	case r.rollback:
		m.replies.push(reply{kind: dropped})
		m.replies.push(reply{kind: cleanup})
		return Answer{Do: Strip, Then: SyncRollback}
	}
	m.replies.push(reply{kind: syncReply})
	return Answer{Do: Strip, Then: Sync}
}

// ready takes a ReadyForQuery.
func (m *Machine) ready(body []byte) Answer {
	for {
		r := m.replies.first()
		if r == nil {
			return Answer{Then: Broken}
		}
		if r.kind != passed && r.kind != ours {
			break
		}
		m.replies.pop() // it has not been answered, so something is not understood
		m.broken = true
	}
	if m.broken || len(body) == 0 {
		return Answer{Then: Broken}
	}
	at := placeOf(body[0])
	r := m.replies.first()
	switch {
	case r.kind == wrapped, r.kind == dropped:
		m.replies.pop()
		return Answer{Do: Drop}
	case at == failed && (r.kind == commitReply || r.kind == syncReply && r.rollback):
		m.replies.replace(reply{kind: cleanup})
		return Answer{Do: Drop, Then: Rollback}
	}
	m.replies.pop()
	m.answered++
	if m.certain && at != m.at {
		return Answer{Then: Broken}
	}
	m.settle(at)
	return Answer{}
}

// settle is done at each ReadyForQuery of the client's.
func (m *Machine) settle(at place) {
	m.copyIn, m.wrapOpen, m.wrapFailed = false, false, false
	if m.replies.boundaries == 0 {
		m.answered = m.sent
		m.copyEnded = m.copyEnded[:0]
	}
	settled := 0
	for settled < len(m.touched) && m.touched[settled].boundary < m.answered {
		settled++
	}
	m.touched = m.touched[:copy(m.touched, m.touched[settled:])]
	m.earlier = max(0, m.earlier-settled)
	if m.replies.boundaries > 0 {
		return
	}
	if !m.certain {
		m.at, m.certain = at, true
		m.entered = m.entered && at != idle
	}
	if at == idle {
		m.mistrust = false
		if len(m.portals) > 0 && !m.batch.began {
			clear(m.portals)
		}
	}
}

// doubt marks what the batch under way has defined: it may not have come to pass.
func (m *Machine) doubt() {
	m.mistrust = true
	for i := range m.touched {
		t := &m.touched[i]
		if t.boundary > m.answered || redefined(m.touched[i+1:], t.name) {
			continue
		}
		if t.name == "" {
			if m.unnamed == t.is {
				m.unnamed = statement{class: doubtful, settles: true}
			}
		} else if m.named(t.name) == t.is {
			m.statements[t.name] = statement{class: doubtful, settles: true}
		}
	}
}

// redefined reports whether later changes are of that name too.
func redefined(later []touch, name string) bool {
	return slices.ContainsFunc(later, func(t touch) bool { return t.name == name })
}

func placeOf(status byte) place {
	switch status {
	case 'I':
		return idle
	case 'T':
		return block
	}
	return failed
}

// parameter takes a ParameterStatus.
func (m *Machine) parameter(body []byte) {
	key, rest := name(body)
	value, _ := name(rest)
	switch string(key) {
	case "standard_conforming_strings":
		m.dialect.BackslashQuotes = string(value) == "off"
	case "server_version":
		m.thaws = thaws(string(value))
	case "client_encoding":
		m.unsafe = ambiguous(string(value))
	}
}

// ambiguous reports whether a letter of an encoding may have a byte below 0x80.
func ambiguous(encoding string) bool {
	switch strings.ToUpper(encoding) {
	case "BIG5", "GB18030", "GBK", "JOHAB", "SJIS", "SHIFT_JIS_2004", "UHC":
		return true
	}
	return false
}

// Own says that an exchange of the proxy's own is sent, which prepares the
// proxy's statements first if they were not there, and ends with a Sync. Nothing
// else may be under way.
func (m *Machine) Own() {
	m.prepared = true
	m.replies.push(reply{kind: own})
}

// collect takes a message of an exchange of the proxy's own.
func (m *Machine) collect(kind byte, body []byte) Answer {
	switch kind {
	case 'A', 'N':
		return Answer{}
	case 'S':
		m.parameter(body)
		return Answer{}
	case 'Z':
		m.replies.pop()
	}
	return Answer{Do: Collect}
}
