package own

import (
	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
)

// Ticket is what makes a check one comparison: see fence.claim.
type Ticket struct{ Seq, Epoch string }

// Array is the value of the domains holds_ticket and present.
func (t *Ticket) Array() []byte { return []byte("{" + t.Seq + "," + t.Epoch + "}") }

// Affixes are the bytes that go around a client's messages, made once for each
// token.
type Affixes struct {
	own *Statements

	prefixes [8]([]byte) // by the number of the bit
	commit   []byte
	leaveOut []byte // Leave and commit
}

// prefixOrder is in what order prefixes go to the server.
var prefixOrder = [...]gate.Prefix{gate.Begin, gate.Check, gate.Enter, gate.Present, gate.Leave, gate.End} //nolint:gochecknoglobals // never written to

// NewAffixes makes them for a session whose setting is token, with the ticket
// of that if it is fast.
func NewAffixes(o *Statements, policy gate.Policy, token string, ticket *Ticket) *Affixes {
	a := &Affixes{own: o}
	said := []byte(policyName(policy))
	set := func(p gate.Prefix, b []byte) { a.prefixes[bitOf(p)] = b }
	set(gate.Begin, o.Run(beginStatement))
	set(gate.End, o.Run(CommitStatement))
	set(gate.Enter, o.AppendBind(nil, enterStatement, said))
	if ticket != nil {
		value := ticket.Array()
		set(gate.Check, o.AppendBind(nil, CheckStatement, []byte(token), value))
		set(gate.Present, o.AppendBind(nil, presentStatement, value))
		set(gate.Leave, o.AppendBind(nil, leaveStatement, []byte(token), value))
	} else {
		set(gate.Leave, o.AppendBind(nil, leaveSlowStatement, []byte(token), said))
	}
	a.commit = pgwire.AppendSync(o.Run(CommitStatement))
	a.leaveOut = append(append([]byte(nil), a.prefixes[bitOf(gate.Leave)]...), a.commit...)
	return a
}

func bitOf(p gate.Prefix) int {
	for i := range 8 {
		if p == 1<<i {
			return i
		}
	}
	panic("own: not one prefix")
}

// AppendPrefix appends what a verdict wants in front of a message.
func (a *Affixes) AppendPrefix(dst []byte, v gate.Verdict) []byte {
	for _, p := range prefixOrder {
		if v.Before&p != 0 {
			dst = append(dst, a.prefixes[bitOf(p)]...)
		}
	}
	if v.Before&gate.Refusal != 0 {
		dst = a.own.AppendBind(dst, refusalStatement, []byte(v.Refusal))
	}
	return dst
}

// AppendSuffix appends what a verdict wants behind a message.
func (a *Affixes) AppendSuffix(dst []byte, v gate.Verdict) []byte {
	switch v.After {
	case gate.Commit:
		return append(dst, a.commit...)
	case gate.LeaveCommit:
		return append(dst, a.leaveOut...)
	case gate.Nothing:
	}
	return dst
}

// policyName is how the fence's functions call a policy.
func policyName(p gate.Policy) string {
	return [...]string{gate.ReadOnly: "read-only", gate.Deny: "deny", gate.Allow: "allow"}[p]
}
