package gate

import (
	"github.com/fenceproxy/fenceproxy/internal/sqltext"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate/statement"
)

// Policy says what a session may do without a token.
type Policy uint8

const (
	// ReadOnly lets it read.
	ReadOnly Policy = iota
	// Deny lets it do nothing.
	Deny
	// Allow lets it do everything.
	Allow
)

// Kind says how the statements of a session are checked.
type Kind uint8

const (
	// Slow checks by a function that looks at everything.
	Slow Kind = iota
	// Fast is for one exclusive token that is claimed, by its ticket.
	Fast
	// Pass is no check, for a session without a token under Allow.
	Pass
)

// Prefix is what goes to the server in front of a message of the client's: a
// set, in this order. Each is Bind and Close of a statement of the proxy's own.
type Prefix uint8

const (
	// Begin is BEGIN, executed; only with the suffix Commit.
	Begin Prefix = 1 << iota
	// Check is the check of a transaction that the message begins.
	Check
	// Enter is the check of a block before its first snapshot: that a Slow
	// session has a token, or may only read.
	Enter
	// Present lets others see under which admission the block was begun.
	Present
	// Leave is the check of a block before its end.
	Leave
	// Refusal fails, with the text of the verdict.
	Refusal
	// End is COMMIT, executed, of what Begin has begun.
	End
)

// Suffix is what goes to the server behind a message of the client's.
type Suffix uint8

const (
	// Nothing goes behind it.
	Nothing Suffix = iota
	// Commit is COMMIT, executed, and Sync.
	Commit
	// LeaveCommit is the check of a block before its end, and Commit.
	LeaveCommit
)

// Do is what to do with a message of the client's.
type Do uint8

const (
	// Forward it, with what goes around it.
	Forward Do = iota
	// Wait, and ask again once Settled says so: the answer depends on replies
	// that have not come yet.
	Wait
	// Resolve the session's token, report by Resolved or Unresolved, and ask
	// again.
	Resolve
	// Flush: send Flush, and ask again once Answered says so.
	Flush
	// Violation of the protocol: the session must end.
	Violation
)

// Verdict is the answer to a message of the client's.
type Verdict struct {
	Do     Do
	Before Prefix
	After  Suffix
	// Anew: the message may drop the proxy's own statements, which After needs, so
	// they are to be prepared in front of that.
	Anew bool
	// Refusal is the text of the prefix of that name.
	Refusal string
}

// place is where a session is, as far as transactions go.
type place uint8

const (
	idle place = iota
	block
	failed
)

// Machine follows one session. It is not safe for concurrent use. Messages of
// each direction must come in their order, and what a verdict says must have
// been done before the next one is asked for.
type Machine struct {
	policy Policy
	kind   Kind
	// dirty: the token may have changed since it was resolved.
	dirty    bool
	dialect  sqltext.Dialect
	unsafe   bool // texts cannot be read in the client's encoding
	thaws    bool // the server is one before PostgreSQL 16
	mayWrite bool // read-only is not imposed on the session, although it is Slow
	prepared bool // the statements of the proxy's own are there
	armed    bool // a statement may have been prepared that changes the token
	unfenced bool // the session was Pass until the last message that may
	reserved string

	// at is where the session is when the boundaries sent have been answered,
	// if certain: else it is what the last reply said.
	at      place
	certain bool
	// entered: what belongs in front of the block's first snapshot was sent.
	entered bool
	// keeps: the block may keep that snapshot; and those of a level that is not
	// named.
	keeps, keepsByDefault bool
	// readOnly: the client may have made the block read-only itself;
	// readOnlyByDefault: those of the session are; standby: so is the server.
	readOnly, readOnlyByDefault, standby bool
	batch                                batch
	copyIn                               bool // the server takes CopyData, and ignores Sync
	// copyEnded are ends of copies of which the server has not said yet that it
	// takes them: how many boundaries were sent before each.
	copyEnded []uint64

	statements map[string]statement.Meaning // those that are not just work
	unnamed    statement.Meaning
	portals    map[string]statement.Meaning
	portal     statement.Meaning // the unnamed one
	// touched are changes of those that may not come to pass.
	touched  []touch
	earlier  int  // of which so many were before the current batch
	mistrust bool // a portal may not be what the client last bound under its name
	replies  queue
	number   uint64 // of the last message that something went in front of
	sent     uint64 // boundaries
	answered uint64
	passed   uint64 // the client's messages of the extended protocol
	done     uint64 // of which so many have been answered, or will not be
	// skipping: the server leaves out what comes up to the next Sync, which has
	// not been sent yet.
	skipping bool
	// unresolved says why the token was refused when it was last looked up, until
	// that has been said to the client.
	unresolved string
	// leaveFailed: in the batch that is skipped, so that a block is to be rolled
	// back which the client knows nothing of.
	leaveFailed bool
	wrapOpen    bool // a block of the proxy's own is open, as far as replies say
	wrapFailed  bool // a Query in a block of the proxy's own has failed
	// broken: the server has said something that it cannot have said.
	broken bool
}

// touch is a change of what a name of a statement means.
type touch struct {
	boundary uint64 // the change came before that one
	message  uint64 // and with that one
	name     string
	is       statement.Meaning
}

// batch is what has been sent since the last boundary.
type batch struct {
	began    bool
	at       place               // in which its next statement will run
	sure     bool                // at was right at its start
	checked  bool                // the transaction in which its statements run was checked
	touched  bool                // the token may have changed in it
	settles  bool                // what comes behind it must wait
	bound    bool                // the unnamed portal was bound in it
	portals  map[string]struct{} // and these; kept only while portals are mistrusted
	executed bool                // an Execute was sent in it
	resets   bool                // how texts are read may have changed in it
	recodes  bool                // client_encoding may have
	leaves   bool                // Leave was sent in it
	wrapped  bool                // its block was begun by the proxy
	doubt    bool                // it is not known where its next statement will run
}

// New returns the machine of a session of which the server has not said yet
// that it is ready.
func New(policy Policy) *Machine {
	return &Machine{
		policy: policy, dirty: true, certain: true, prepared: true,
		thaws:      true, // until the server says which version it is
		statements: map[string]statement.Meaning{}, portals: map[string]statement.Meaning{},
		unnamed: statement.Plain, portal: statement.Plain,
	}
}

// Resolved says how statements are to be checked from now on.
func (m *Machine) Resolved(kind Kind) {
	m.kind, m.dirty, m.mayWrite, m.unfenced = kind, false, false, false
}

// Unresolved says that the token was refused: what asked for it is refused, with
// a text of code, message, newline and hint. The next one asks again.
// There is no ticket by which to check quickly what need not ask: it is checked
// slowly, and so refused, too.
func (m *Machine) Unresolved(refusal string) {
	m.unresolved, m.kind, m.mayWrite, m.unfenced = refusal, Slow, false, false
}

// Idle reports whether the session is outside of a transaction with nothing
// under way.
func (m *Machine) Idle() bool {
	return m.Quiet() && !m.copyIn && !m.batch.began && m.at == idle
}

// Settled reports whether everything sent has been answered, or what there is
// to be waited for has been seen.
func (m *Machine) Settled() bool { return m.replies.boundaries == 0 || m.copyIn }

// Quiet reports whether nothing at all is under way.
func (m *Machine) Quiet() bool { return m.replies.size == 0 && !m.skipping }

// Wrapped reports whether the next reply is one to a Query in a block of the
// proxy's own: of its completions only the last one has to wait for the COMMIT.
func (m *Machine) Wrapped() bool {
	r := m.replies.first()
	return r != nil && r.kind == wrapped
}

// Answered reports whether all has been answered that Flush makes the server
// answer.
func (m *Machine) Answered() bool { return m.replies.size == 0 || m.skipping || m.copyIn }

// Number is that of the last message that something went in front of: they are
// counted.
func (m *Machine) Number() uint64 { return m.number }

// InBlock reports whether the session idles inside of a transaction.
func (m *Machine) InBlock() bool { return m.replies.boundaries == 0 && !m.batch.began && m.at != idle }

// OwnPrefix is what the names of the statements begin with that the proxy prepares
// for itself.
const OwnPrefix = statement.OwnPrefix

// OwnStatements is how many statements the proxy prepares for itself, each by
// Close and Parse.
const OwnStatements = 10

// Prepared reports whether the statements of the proxy's own are there. If not
// they must be sent in front of the next prefix, or of an exchange of the
// proxy's own, in which case Own must be told.
func (m *Machine) Prepared() bool { return m.prepared }

// Lost says that the statements of the proxy's own, or some of them, are not there.
func (m *Machine) Lost() { m.prepared = false }
