package pgproxy

import (
	"strconv"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
)

// The statements that a session prepares for itself at the server. Most of them
// are empty: what matters is what their parameters are converted to.
const (
	checkStatement = iota
	enterStatement
	presentStatement
	leaveStatement
	leaveSlowStatement
	refusalStatement
	beginStatement
	commitStatement
	tokenStatement
	ticketStatement
	statementCount
)

const emptyText = "/* fence check */"

// definition is the text of a statement and the domains of its parameters, in
// the schema fence.
type definition struct {
	text    string
	domains []string
}

var definitions = [gate.OwnStatements]definition{ //nolint:gochecknoglobals // never written to
	checkStatement:     {emptyText, []string{"holds_token", "holds_ticket"}},
	enterStatement:     {emptyText, []string{"enters"}},
	presentStatement:   {emptyText, []string{"present"}},
	leaveStatement:     {emptyText, []string{"bound_token", "holds_ticket"}},
	leaveSlowStatement: {emptyText, []string{"bound_token", "leaves"}},
	refusalStatement:   {emptyText, []string{"refusal"}},
	beginStatement:     {text: "BEGIN"},
	commitStatement:    {text: "COMMIT"},
	tokenStatement:     {text: "SELECT pg_catalog.current_setting('fence.token', true)"},
	ticketStatement:    {text: "SELECT t.seq, t.epoch FROM fence.ticket($1) AS t"},
}

var _ = [1]struct{}{}[statementCount-gate.OwnStatements]

// domains are the names of the types that definitions use, each once.
var domains = []string{"holds_token", "holds_ticket", "enters", "present", "bound_token", "leaves", "refusal"} //nolint:gochecknoglobals // never written to

// own is the names of the statements and of the portal of one session: no other
// session's, should both reach the server over one connection in turn.
type own struct {
	names  [statementCount]string
	portal string
	oids   map[string]uint32
	fenced bool // false if the database has no fence, and the session needs none
}

func newOwn(suffix string) *own {
	o := &own{portal: "_fence_" + suffix}
	for i := range o.names {
		o.names[i] = o.portal + "_" + strconv.Itoa(i)
	}
	return o
}

// appendPrepare appends Close and Parse of each statement: it may be there, if it
// is not certain that it was lost.
func (o *own) appendPrepare(dst []byte) []byte {
	for i, d := range definitions {
		types := make([]uint32, len(d.domains))
		for j, domain := range d.domains {
			types[j] = o.oids[domain]
		}
		text := d.text
		if i == ticketStatement && !o.fenced {
			text = emptyText
		}
		dst = pgwire.AppendCloseStatement(dst, o.names[i])
		dst = pgwire.AppendParse(dst, o.names[i], text, types...)
	}
	return dst
}

// appendBind appends Bind and Close of an empty statement.
func (o *own) appendBind(dst []byte, statement int, parameters ...[]byte) []byte {
	dst = pgwire.AppendBind(dst, o.portal, o.names[statement], parameters...)
	return pgwire.AppendClosePortal(dst, o.portal)
}

// run is Bind, Execute and Close of a statement.
func (o *own) run(statement int, parameters ...[]byte) []byte {
	dst := pgwire.AppendBind(nil, o.portal, o.names[statement], parameters...)
	dst = pgwire.AppendExecute(dst, o.portal)
	return pgwire.AppendClosePortal(dst, o.portal)
}

// appendOnce appends the whole life of a statement that is not kept. Its portal
// is another one: that of a check that failed is there until the block ends.
func (o *own) appendOnce(dst []byte, text string, parameters ...[]byte) []byte {
	name := o.portal + "_once"
	dst = pgwire.AppendClosePortal(dst, name) // one that failed stays until its transaction ends
	dst = pgwire.AppendCloseStatement(dst, name)
	dst = pgwire.AppendParse(dst, name, text)
	dst = pgwire.AppendBind(dst, name, name, parameters...)
	dst = pgwire.AppendExecute(dst, name)
	dst = pgwire.AppendClosePortal(dst, name)
	return pgwire.AppendCloseStatement(dst, name)
}

// appendRollback appends an exchange that ends a block.
func (o *own) appendRollback(dst []byte) []byte {
	return pgwire.AppendSync(o.appendOnce(dst, "ROLLBACK"))
}

// affixes are the bytes that go around a client's messages, made once for each
// token.
type affixes struct {
	own *own

	prefixes [8]([]byte) // by the number of the bit
	commit   []byte
	leaveOut []byte // Leave and commit
}

// prefixOrder is in what order prefixes go to the server.
var prefixOrder = [...]gate.Prefix{gate.Begin, gate.Check, gate.Enter, gate.Present, gate.Leave, gate.End} //nolint:gochecknoglobals // never written to

// newAffixes makes them for a session whose setting is token, with the ticket
// of that if it is fast.
func newAffixes(o *own, policy gate.Policy, token string, ticket *ticket) *affixes {
	a := &affixes{own: o}
	said := []byte(policyName(policy))
	set := func(p gate.Prefix, b []byte) { a.prefixes[bitOf(p)] = b }
	set(gate.Begin, o.run(beginStatement))
	set(gate.End, o.run(commitStatement))
	set(gate.Enter, o.appendBind(nil, enterStatement, said))
	if ticket != nil {
		value := ticket.array()
		set(gate.Check, o.appendBind(nil, checkStatement, []byte(token), value))
		set(gate.Present, o.appendBind(nil, presentStatement, value))
		set(gate.Leave, o.appendBind(nil, leaveStatement, []byte(token), value))
	} else {
		set(gate.Leave, o.appendBind(nil, leaveSlowStatement, []byte(token), said))
	}
	a.commit = pgwire.AppendSync(o.run(commitStatement))
	a.leaveOut = append(append([]byte(nil), a.prefixes[bitOf(gate.Leave)]...), a.commit...)
	return a
}

func bitOf(p gate.Prefix) int {
	for i := range 8 {
		if p == 1<<i {
			return i
		}
	}
	panic("pgproxy: not one prefix")
}

// appendPrefix appends what a verdict wants in front of a message.
func (a *affixes) appendPrefix(dst []byte, v gate.Verdict) []byte {
	for _, p := range prefixOrder {
		if v.Before&p != 0 {
			dst = append(dst, a.prefixes[bitOf(p)]...)
		}
	}
	if v.Before&gate.Refusal != 0 {
		dst = a.own.appendBind(dst, refusalStatement, []byte(v.Refusal))
	}
	return dst
}

// appendSuffix appends what a verdict wants behind a message.
func (a *affixes) appendSuffix(dst []byte, v gate.Verdict) []byte {
	switch v.After {
	case gate.Commit:
		return append(dst, a.commit...)
	case gate.LeaveCommit:
		return append(dst, a.leaveOut...)
	case gate.Nothing:
	}
	return dst
}

func policyName(p gate.Policy) string { return Policy(p).String() }
