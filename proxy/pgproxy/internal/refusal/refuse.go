package refusal

import (
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
)

// TimeLimit is how long a client may take to take its refusal.
const TimeLimit = 5 * time.Second

// Severities of an ErrorResponse. FATAL is followed by the end of the
// connection, ERROR is not.
const (
	severityError = "ERROR"
	severityFatal = "FATAL"
)

// SQLSTATEs of what the proxy says of itself. Those of refused tokens are
// carrier's.
const (
	stateCannotConnect      = "08001" // sqlclient_unable_to_establish_sqlconnection
	stateConnectionFailure  = "08006"
	stateProtocolViolation  = "08P01"
	stateUnsupported        = "0A000" // feature_not_supported
	stateInvalidAuth        = "28000" // invalid_authorization_specification
	stateTooManyConnections = "53300"
	stateCannotConnectNow   = "57P03"
	stateAdminShutdown      = "57P01"
	stateTooLong            = "54000" // program_limit_exceeded
	stateIdleInTransaction  = "25P03"
)

// StateQueryCanceled is of what a client has cancelled, or a limit on time.
const StateQueryCanceled = "57014"

// SQLSTATEs of refused tokens that the proxy itself comes to.
const (
	StateUnclaimed   = "TK004"
	StateMalformed   = "TK006"
	StateCannotFence = "TK007"
)

// Error is an ErrorResponse of the proxy's own. As an error it ends the
// connection.
//
// https://www.postgresql.org/docs/current/protocol-error-fields.html
type Error struct {
	Severity, State, Message, Detail, Hint string

	// Cause is the label of refused_connections_total.
	Cause string
	// err is what the log is told and the client is not: addresses, file names.
	err error
}

func (e *Error) Error() string {
	if e.err != nil {
		return e.Message + ": " + e.err.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.err }

// Wire is the refusal as it goes over the wire.
func (e *Error) Wire() []byte {
	return pgwire.AppendError(
		nil,
		pgwire.Field{Code: pgwire.Severity, Text: e.Severity}, pgwire.Field{Code: pgwire.SeverityCode, Text: e.Severity},
		pgwire.Field{Code: pgwire.Code, Text: e.State}, pgwire.Field{Code: pgwire.Message, Text: e.Message},
		pgwire.Field{Code: pgwire.Detail, Text: e.Detail}, pgwire.Field{Code: pgwire.Hint, Text: e.Hint},
	)
}

func fatal(cause, state, format string, args ...any) *Error {
	return &Error{Severity: severityFatal, State: state, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// Shutdown ends a session that the proxy no longer serves.
func Shutdown() *Error {
	return fatal("shutdown", stateAdminShutdown, "terminating connection due to administrator command")
}

// Draining is for a client that comes while the proxy shuts down.
func Draining() *Error {
	return fatal("shutdown", stateCannotConnectNow, "the proxy is shutting down")
}

// TooMany is for a client beyond those that the proxy takes at a time.
func TooMany() *Error {
	return fatal("max_connections", stateTooManyConnections, "sorry, too many clients already")
}

// Packet is for a message that cannot be one.
func Packet(format string, args ...any) *Error {
	return fatal("protocol", stateProtocolViolation, format, args...)
}

// Version is for a protocol that is not 3.
func Version(version uint32) *Error {
	return fatal("protocol", stateUnsupported, "unsupported frontend protocol %d.%d: the proxy supports 3.0 and later minor versions",
		version>>16, version&0xffff)
}

// EarlyData is for bytes that came before the encryption that was asked for.
func EarlyData() *Error {
	r := Packet("received unencrypted data after SSL request")
	r.Detail = "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack."
	return r
}

// Timeout is for a client that takes too long until it is authenticated.
func Timeout() *Error {
	return fatal("timeout", StateQueryCanceled, "canceling authentication due to timeout")
}

// Plain is for a client that comes without TLS where it is required.
func Plain() *Error {
	r := fatal("tls_required", stateInvalidAuth, "the proxy requires TLS (SSL)")
	r.Hint = "Connect with sslmode=require or above."
	return r
}

// Certificate is for a client whose certificate is not the user's.
func Certificate(user string) *Error {
	return fatal("certificate", stateInvalidAuth, "certificate authentication failed for user %q", user)
}

// Replication is for a replication connection.
func Replication() *Error {
	r := fatal("replication", StateCannotFence, "replication connections cannot be fenced")
	r.Hint = "Connect to the server itself, or let the proxy allow them."
	return r
}

// Upstream says why the server cannot be reached; err is for the log.
func Upstream(reason string, err error) *Error {
	r := fatal("upstream", stateCannotConnect, "the proxy cannot connect to the server: %s", reason)
	r.err = err
	return r
}

// Broken is for a server that ends a connection before the client is
// authenticated, without a word.
func Broken(err error) *Error {
	r := fatal("upstream", stateConnectionFailure, "the server closed the connection to the proxy unexpectedly")
	r.err = err
	return r
}

// Binding is for a client that would have bound SCRAM to its TLS channel, which
// ends at the proxy, at a server that insists on hearing so.
func Binding() *Error {
	r := fatal("channel_binding", stateInvalidAuth, "SCRAM authentication with channel binding does not pass the proxy")
	r.Detail = "The client and the server both have TLS and could bind the authentication to it, but it is not the same TLS: " +
		"it ends at the proxy, which shows another certificate than the server."
	r.Hint = "Connect with channel_binding=disable, or give the proxy the server's own certificate, or connect the proxy to the server without TLS."
	return r
}

// Idle ends a session that holds up the next holder and does nothing.
func Idle() *Error {
	return fatal("idle", stateIdleInTransaction, "terminating connection due to idle-in-transaction timeout")
}

// Unfenced is for a database in which nothing can be checked.
func Unfenced(database string) *Error {
	r := fatal("unfenced", StateCannotFence, "fence: database %q has no fence that this proxy can use", database)
	r.Hint = "Run: fenceproxy migrate up"
	return r
}

// Prepare is for a session in which nothing can be checked, though the database
// has the fence: the server has said why not.
func Prepare(state, message, hint string) *Error {
	r := fatal("unfenced", state, "fence: the proxy cannot prepare the session: %s", message)
	r.Hint = hint
	return r
}

// ReadOnly is what is added to the server's own error of a write in a session
// whose transactions the fence makes read-only.
func ReadOnly(shared bool) []pgwire.Field {
	detail, hint := "This session has no fencing token, so the proxy made the transaction read-only.",
		`Set fence.token to the token of the lock, for example by PGOPTIONS="-c fence.token=...", or run the program by "fenceproxy exec".`
	if shared {
		detail, hint = "The fencing token of this session is shared, so the proxy made the transaction read-only.",
			"Take the lock for writing: a write needs an exclusive token."
	}
	return []pgwire.Field{{Code: pgwire.Detail, Text: detail}, {Code: pgwire.Hint, Text: hint}}
}

// TooLong is for a statement of more than most bytes, which is not looked at.
func TooLong(most int) *Error {
	r := fatal("too_long", stateTooLong, "the statement is longer than the %d bytes that the proxy reads", most)
	r.Hint = "Raise max_message, or send values as parameters or by COPY."
	return r
}

// Statement refuses one statement, which cannot be fenced, and not the session.
func Statement(message, hint string) *Error {
	return &Error{Severity: severityError, State: StateCannotFence, Message: message, Hint: hint}
}
