package gate

import (
	"bytes"
	"strings"
)

// Answer is what to do with a message of the server's, and after it.
type Answer struct {
	Do   AnswerDo
	Then Then
	// Number is that of the message that was refused, of Strip.
	Number uint64
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
	// Explain in it that the session may not write, and relay it.
	Explain
)

// Then is what to do after a message of the server's.
type Then uint8

const (
	// None: nothing more.
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
	if kind == 'E' && ends(body) {
		return Answer{} // whatever it answers: the client's session ends with it
	}
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
		m.copies()
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
		} else {
			m.done++
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
func (m *Machine) copies() {
	end := m.sent
	if m.copyIn = len(m.copyEnded) == 0; !m.copyIn {
		end = m.copyEnded[0]
		m.copyEnded = m.copyEnded[:copy(m.copyEnded, m.copyEnded[1:])]
	}
	m.answered += m.replies.dropSyncs(end)
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
	case "default_transaction_read_only":
		m.readOnlyByDefault = string(value) == "on"
	case "in_hot_standby":
		m.standby = string(value) == "on"
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
