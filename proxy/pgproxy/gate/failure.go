package gate

import (
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate/statement"
)

// failed takes an ErrorResponse.
func (m *Machine) failed(body []byte) Answer {
	r := m.replies.first()
	number := r.number
	a := m.failure(r, body)
	a.Number = number
	if a.Do == Relay {
		a.Do = m.explain(body)
	}
	return a
}

func (m *Machine) failure(r *reply, body []byte) Answer {
	switch r.kind {
	case query, wrapped:
		m.copyIn, m.wrapFailed = false, r.kind == wrapped
		return Answer{}
	case commitReply:
		m.prepared = m.prepared && !missing(body)
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
	case missing(body):
		m.prepared = false
	case !strings.HasPrefix(code, "TK0"):
		m.dirty = true // the ticket may be of a fence that is not there any more
	case code == unclaimed:
		m.dirty = true // the token is another one than was known of
	}
	if failed.sync {
		return m.failedQuery(failed)
	}
	m.leaveFailed = failed.rollback || m.wrapOpen
	m.skip()
	return Answer{Do: Strip}
}

// unclaimed is the SQLSTATE of a check that finds a token which nobody has claimed,
// or another one than the transaction began with.
const unclaimed = "TK004"

// missing reports whether an ErrorResponse to a message of the proxy's own says
// that the statement is not there.
func missing(body []byte) bool { return pgwire.FieldOf(body, pgwire.Code) == "26000" }

// skip drops the replies that will not come. If the Sync at which they go on has
// been sent it is known what to do then.
func (m *Machine) skip() {
	sent, unprepared, left := m.replies.skipToSync()
	m.done += left
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

// doubt marks what the batch under way has defined, but for what the server has said
// it did: it may not have come to pass.
func (m *Machine) doubt() {
	m.mistrust = true
	for i := range m.touched {
		t := &m.touched[i]
		if t.message < m.done || t.boundary > m.answered || redefined(m.touched[i+1:], t.name) {
			continue
		}
		if t.name == "" {
			if m.unnamed == t.is {
				m.unnamed = statement.Unknown
			}
		} else if m.named(t.name) == t.is {
			m.statements[t.name] = statement.Unknown
		}
	}
}

// redefined reports whether later changes are of that name too.
func redefined(later []touch, name string) bool {
	return slices.ContainsFunc(later, func(t touch) bool { return t.name == name })
}

// ends reports whether an ErrorResponse is the server's last word.
func ends(body []byte) bool {
	switch pgwire.FieldOf(body, pgwire.SeverityCode) {
	case "FATAL", "PANIC":
		return true
	}
	return false
}
