package gate

import (
	"github.com/fenceproxy/fenceproxy/internal/sqltext"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate/statement"
)

// plan is what a Query does, statement by statement.
type plan struct {
	statements int
	work       bool   // something needs the fence
	ends       bool   // it makes the work of a transaction last
	begins     bool   // it begins a block
	modes      bool   // that must come before any snapshot
	lifts      bool   // and those that make a transaction read-write, if it is not
	closes     bool   // a transaction ends in it that needs the fence
	open       bool   // a block is open behind it, if nothing fails
	fresh      bool   // and it was begun behind everything that needs the fence
	procedure  bool   // it is CALL or DO and nothing else
	apart      bool   // it commits half-way
	touches    bool   // it may change the token
	armed      bool   // what may, may have been prepared
	forgets    bool   // it makes the server forget prepared statements
	drops      string // but only the one of this name, if it is not empty
	forgetsAll bool   // the proxy's own, too, or perhaps
	settles    bool   // what comes behind it must wait for its reply
	tame       bool   // all of it may run in a block of the proxy's own
	holds      bool   // it leaves something to be done at COMMIT
	locks      bool   // what needs the fence is nothing but LOCK TABLE
	opens      bool   // it begins a block where there is none
	keeps      bool   // the block may keep its first snapshot
	// keepsByDefault: those to come may.
	keepsByDefault bool
	readOnly       bool // it may make a transaction read-only
	// refusal says why it cannot be fenced, if it cannot.
	refusal string
	// executes are the names that are run by EXECUTE; of those that could not be read
	// there is one.
	executes []string
	unread   bool
}

// planQuery reads the statements of a Query that finds the session in place, and
// perhaps armed.
func planQuery(text string, d sqltext.Dialect, at place, armed bool) plan {
	p := plan{open: at != idle, tame: true, armed: armed}
	broken, ended := at == failed, false
	for s := range sqltext.Statements(text, d) {
		st := statement.Of(&s)
		p.note(st)
		switch st.Class {
		case statement.Free:
		case statement.Begin:
			p.begins = true
			if !p.open {
				p.open, p.fresh, p.opens, p.keeps = true, true, true, st.Keeps
			}
		case statement.Commit:
			if broken && !ended {
				broken = false // it rolls back
			} else {
				p.ends = true
			}
			p.open, ended, p.closes = false, true, p.work
		case statement.CommitChain:
			switch {
			case broken && !ended: // it rolls back
				p.fresh, ended, broken = true, true, false
			case p.open:
				p.refusal = refusalChain
			}
		case statement.Rollback:
			p.open, ended, broken = false, true, false
		case statement.RollbackChain:
			p.fresh, ended, broken = true, true, false
		case statement.RollbackTo:
			if broken {
				// What comes behind it works again, and a COMMIT would count.
				p.refusal = refusalRevive
			}
		default:
			if ended {
				p.refusal = refusalBehindEnd
			}
			p.locks = st.Locks && (p.locks || !p.work)
			p.work, p.fresh = true, false
			p.procedure = st.Class == statement.Procedure
			p.apart = p.apart || st.Class == statement.Apart
		}
	}
	if p.statements > 1 {
		p.procedure = false // inside of a transaction of the message's, it cannot commit
		switch {
		case p.touches && (p.work || p.ends || p.begins):
			p.refusal = refusalTouches
		case p.modes && p.work && !p.locks:
			p.refusal = refusalModes
		}
	}
	if broken && p.refusal == refusalRevive && p.statements == 1 {
		p.refusal = ""
	}
	return p
}

// note takes what is said of a statement wherever in the Query it is.
func (p *plan) note(st statement.Meaning) {
	p.statements++
	touches := st.Touches || st.Runs && p.armed
	p.touches, p.armed = p.touches || touches, p.armed || st.Arms
	p.settles = p.settles || st.Settles || touches
	p.modes = p.modes || st.Modes
	p.lifts = p.lifts || st.Lifts
	p.holds = p.holds || st.Holds
	p.readOnly = p.readOnly || st.ReadOnly
	if st.Keeps {
		p.keeps, p.keepsByDefault = p.keeps || st.Modes, p.keepsByDefault || !st.Modes
	}
	p.tame = p.tame && (st.Tame || st.Class == statement.Procedure || st.Class == statement.Free)
	if unread := st.Executes == statement.UnreadName; st.Executes != "" && (!p.unread || !unread) {
		p.executes, p.unread = append(p.executes, st.Executes), p.unread || unread
	}
	p.forget(st)
}

// forget notes what a statement of the Query makes the server forget.
func (p *plan) forget(st statement.Meaning) {
	if !st.Forgets {
		return
	}
	if p.drops = st.Drops; p.forgets {
		p.drops = "" // more than one
	}
	p.forgets, p.forgetsAll = true, p.forgetsAll || st.ForgetsAll
}

// Why a statement cannot be fenced, and what to do, as the server words it: the
// message, a newline and the hint.
const (
	refusalChain     = "TK007 fence: COMMIT AND CHAIN cannot be fenced\nSend COMMIT and BEGIN instead."
	refusalBehindEnd = "TK007 fence: a statement behind the end of a transaction in the same message cannot be fenced\nSend it in a message of its own."
	refusalCrowded   = "TK007 fence: too many statements that begin or end transactions, or change the session, are prepared in one batch\nSend Sync after each thousand of them."
	refusalTouches   = "TK007 fence: fence.token or transaction_read_only is changed in one message with other statements\nChange it in a message of its own, outside of a transaction."
	refusalModes     = "TK007 fence: BEGIN or SET TRANSACTION with an isolation level cannot be fenced in one message with other statements\nSend it in a message of its own."
	refusalLifts     = "TK007 fence: BEGIN or SET TRANSACTION with READ WRITE, where the default is read-only, cannot be fenced in one message with other statements\nSend it in a message of its own."
	refusalRevive    = "TK007 fence: ROLLBACK TO in a failed transaction cannot be fenced in one message with other statements\nSend it in a message of its own."
	refusalApart     = "TK007 fence: this statement commits before it is done, so it cannot be fenced\nRun it on a connection without a token where that may write, or on the server itself."
	refusalDoubt     = "TK007 fence: after an error it is not known what this prepared statement is\nPrepare it again."
	refusalBegin     = "TK007 fence: BEGIN behind a statement that the proxy runs in a block of its own, without Sync in between, cannot be fenced\nSend Sync first."
	refusalUnsynced  = "TK007 fence: a Query behind other messages without Sync in between cannot be fenced\nSend Sync first."
	refusalEncoding  = "TK007 fence: texts in this client_encoding cannot be read for certain\nUse client_encoding UTF8."
)
