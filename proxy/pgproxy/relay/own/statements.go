package own

import (
	"strconv"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
)

// The statements that a session prepares for itself at the server. Most of them
// are empty: what matters is what their parameters are converted to. Those up to
// CommitStatement go around a client's messages.
const (
	CheckStatement = iota
	enterStatement
	presentStatement
	leaveStatement
	leaveSlowStatement
	refusalStatement
	beginStatement
	CommitStatement
	TokenStatement
	TicketStatement
	statementCount
)

// EmptyText is the text of the statements that are nothing but their parameters.
const EmptyText = "/* fence check */"

// definition is the text of a statement and the domains of its parameters, in
// the schema fence.
type definition struct {
	text    string
	domains []string
}

var definitions = [gate.OwnStatements]definition{ //nolint:gochecknoglobals // never written to
	CheckStatement:     {EmptyText, []string{"holds_token", "holds_ticket"}},
	enterStatement:     {EmptyText, []string{"enters"}},
	presentStatement:   {EmptyText, []string{"present"}},
	leaveStatement:     {EmptyText, []string{"bound_token", "holds_ticket"}},
	leaveSlowStatement: {EmptyText, []string{"bound_token", "leaves"}},
	refusalStatement:   {EmptyText, []string{"refusal"}},
	beginStatement:     {text: "BEGIN"},
	CommitStatement:    {text: "COMMIT"},
	TokenStatement:     {text: "SELECT pg_catalog.current_setting('fence.token', true)"},
	TicketStatement: {text: "SELECT t.seq, t.epoch, pg_catalog.current_setting('synchronous_standby_names') OPERATOR(pg_catalog.<>) '' " +
		"AND NOT pg_catalog.pg_is_in_recovery() FROM fence.ticket($1) AS t"},
}

var _ = [1]struct{}{}[statementCount-gate.OwnStatements]

// Domains are the names of the types that the statements' parameters have, in the
// schema fence, each once.
func Domains() []string {
	return []string{"holds_token", "holds_ticket", "enters", "present", "bound_token", "leaves", "refusal"}
}

// Statements are the statements and the portal of one session, by names that no
// other session has, should both reach the server over one connection in turn.
type Statements struct {
	names  [statementCount]string
	portal string
	// OIDs are the types of Domains in the session's database.
	OIDs map[string]uint32
	// Fenced is false if the database has no fence, and the session needs none.
	Fenced bool
}

// New returns those of a session that nobody else on its server has the suffix of.
func New(suffix string) *Statements {
	o := &Statements{portal: gate.OwnPrefix + suffix}
	for i := range o.names {
		o.names[i] = o.portal + "_" + strconv.Itoa(i)
	}
	return o
}

// Prefix is what the names of these statements begin with.
func (o *Statements) Prefix() string { return o.portal }

// AppendPrepare appends Close and Parse of each statement: it may be there, if it
// is not certain that it was lost.
func (o *Statements) AppendPrepare(dst []byte) []byte {
	for i, d := range definitions {
		types := make([]uint32, len(d.domains))
		for j, domain := range d.domains {
			types[j] = o.OIDs[domain]
		}
		text := d.text
		if i == TicketStatement && !o.Fenced {
			text = EmptyText
		}
		dst = pgwire.AppendCloseStatement(dst, o.names[i])
		dst = pgwire.AppendParse(dst, o.names[i], text, types...)
	}
	return dst
}

// AppendBind appends Bind and Close of an empty statement.
func (o *Statements) AppendBind(dst []byte, statement int, parameters ...[]byte) []byte {
	dst = pgwire.AppendBind(dst, o.portal, o.names[statement], parameters...)
	return pgwire.AppendClosePortal(dst, o.portal)
}

// Run is Bind, Execute and Close of a statement.
func (o *Statements) Run(statement int, parameters ...[]byte) []byte {
	dst := pgwire.AppendBind(nil, o.portal, o.names[statement], parameters...)
	dst = pgwire.AppendExecute(dst, o.portal)
	return pgwire.AppendClosePortal(dst, o.portal)
}

// AppendOnce appends the whole life of a statement that is not kept. Its portal
// is another one: that of a check that failed is there until the block ends.
func (o *Statements) AppendOnce(dst []byte, text string, parameters ...[]byte) []byte {
	name := o.portal + "_once"
	dst = pgwire.AppendClosePortal(dst, name) // one that failed stays until its transaction ends
	dst = pgwire.AppendCloseStatement(dst, name)
	dst = pgwire.AppendParse(dst, name, text)
	dst = pgwire.AppendBind(dst, name, name, parameters...)
	dst = pgwire.AppendExecute(dst, name)
	dst = pgwire.AppendClosePortal(dst, name)
	return pgwire.AppendCloseStatement(dst, name)
}

// AppendRollback appends an exchange that ends a block.
func (o *Statements) AppendRollback(dst []byte) []byte {
	return pgwire.AppendSync(o.AppendOnce(dst, "ROLLBACK"))
}
