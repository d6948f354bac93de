package gate

import (
	"strconv"
)

// Read-only, once imposed, is not lifted by anything behind a snapshot, but for
// servers before PostgreSQL 16: RESET transaction_read_only lifts it there, and
// large objects are written in spite of it. Whatever wrote has a transaction id,
// which Leave sees; so there each transaction that may not write is made to end
// behind a Leave, also that of a single message.

// firstFrozen is the first version where read-only stays what it is.
const firstFrozen = 16

// thaws reports whether a server of that version lets read-only be lifted, or may:
// a version that cannot be read counts as old.
func thaws(version string) bool {
	end := 0
	for end < len(version) && '0' <= version[end] && version[end] <= '9' {
		end++
	}
	major, err := strconv.Atoi(version[:end])
	return err != nil || major < firstFrozen
}

// MayWrite says of a session that was resolved as Slow that read-only is not
// imposed on it: all of its tokens are exclusive.
func (m *Machine) MayWrite() { m.mayWrite = true }

// thawing reports whether a transaction must end behind a Leave since it may not
// write and could.
func (m *Machine) thawing() bool { return m.kind == Slow && m.thaws && !m.mayWrite }

// FollowsCalls reports whether something may go behind a FunctionCall, which
// must then have come as a whole.
func (m *Machine) FollowsCalls() bool { return m.thawing() }

// thawPlan decides about a Query of a session that may not write and could, if
// it is to be decided otherwise than for others.
func (m *Machine) thawPlan(p plan) (v Verdict, decided bool) {
	switch {
	case !m.thawing() || !p.work:
		return Verdict{}, false
	case p.holds:
		return Verdict{Before: Refusal, Refusal: refusalHold}, true
	case p.ends && m.batch.at != failed:
		return Verdict{Before: Refusal, Refusal: refusalThaw}, true
	case m.batch.at != idle || p.open:
		return Verdict{}, false
	case p.tame && m.unfenced && p.touches: // nothing keeps it from writing before its token is known
	case p.tame:
		return Verdict{Before: Begin | Enter, After: LeaveCommit}, true
	case p.statements > 1:
		return Verdict{Before: Refusal, Refusal: refusalThaw}, true
	}
	return Verdict{}, false
}

const (
	refusalHold = "TK007 fence: before PostgreSQL 16 a cursor WITH HOLD cannot be fenced in a session that may not write\nUse a cursor without it, inside of a transaction."
	refusalThaw = "TK007 fence: before PostgreSQL 16 these statements cannot be fenced in one message in a session that may not write\nSend each in a message of its own."
)
