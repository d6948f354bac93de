package pgproxy

import (
	"encoding/binary"
	"fmt"
)

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
	stateQueryCanceled      = "57014"
	stateTooLong            = "54000" // program_limit_exceeded
	stateIdleInTransaction  = "25P03"
	stateUnclaimed          = "TK004"
	stateMalformed          = "TK006"
	stateCannotFence        = "TK007"
)

// refusal is an ErrorResponse of the proxy's own: all that it says to a client
// is built in this file. As an error it ends the connection.
//
// https://www.postgresql.org/docs/current/protocol-error-fields.html
type refusal struct {
	severity, state, message, detail, hint string

	// cause is the label of refused_connections_total.
	cause string
	// err is what the log is told and the client is not: addresses, file names.
	err error
}

func (r *refusal) Error() string {
	if r.err != nil {
		return r.message + ": " + r.err.Error()
	}
	return r.message
}

func (r *refusal) Unwrap() error { return r.err }

// wire is the refusal as it goes over the wire.
func (r *refusal) wire() []byte {
	b := []byte{msgErrorResponse, 0, 0, 0, 0}
	field := func(key byte, value string) {
		if value != "" {
			b = append(append(append(b, key), value...), 0)
		}
	}
	field('S', r.severity)
	field('V', r.severity)
	field('C', r.state)
	field('M', r.message)
	field('D', r.detail)
	field('H', r.hint)
	b = append(b, 0)
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-1)) //nolint:gosec // it is as long as its texts
	return b
}

func fatal(cause, state, format string, args ...any) *refusal {
	return &refusal{severity: severityFatal, state: state, message: fmt.Sprintf(format, args...), cause: cause}
}

// refuseShutdown ends a session that the proxy no longer serves.
func refuseShutdown() *refusal {
	return fatal("shutdown", stateAdminShutdown, "terminating connection due to administrator command")
}

func refuseDraining() *refusal {
	return fatal("shutdown", stateCannotConnectNow, "the proxy is shutting down")
}

func refuseTooMany() *refusal {
	return fatal("max_connections", stateTooManyConnections, "sorry, too many clients already")
}

func refusePacket(format string, args ...any) *refusal {
	return fatal("protocol", stateProtocolViolation, format, args...)
}

func refuseVersion(version uint32) *refusal {
	return fatal("protocol", stateUnsupported, "unsupported frontend protocol %d.%d: the proxy supports 3.0 and later minor versions",
		version>>16, version&0xffff)
}

func refuseEarlyData() *refusal {
	r := refusePacket("received unencrypted data after SSL request")
	r.detail = "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack."
	return r
}

func refuseTimeout() *refusal {
	return fatal("timeout", stateQueryCanceled, "canceling authentication due to timeout")
}

func refusePlain() *refusal {
	r := fatal("tls_required", stateInvalidAuth, "the proxy requires TLS (SSL)")
	r.hint = "Connect with sslmode=require or above."
	return r
}

func refuseCertificate(user string) *refusal {
	return fatal("certificate", stateInvalidAuth, "certificate authentication failed for user %q", user)
}

func refuseReplication() *refusal {
	r := fatal("replication", stateCannotFence, "replication connections cannot be fenced")
	r.hint = "Connect to the server itself, or let the proxy allow them."
	return r
}

// refuseUpstream says why the server cannot be reached; err is for the log.
func refuseUpstream(reason string, err error) *refusal {
	r := fatal("upstream", stateCannotConnect, "the proxy cannot connect to the server: %s", reason)
	r.err = err
	return r
}

// refuseBroken is for a server that ends a connection before the client is
// authenticated, without a word.
func refuseBroken(err error) *refusal {
	r := fatal("upstream", stateConnectionFailure, "the server closed the connection to the proxy unexpectedly")
	r.err = err
	return r
}

// refuseBinding is for a client that would have bound SCRAM to its TLS channel,
// which ends at the proxy, at a server that insists on hearing so; see bind.
func refuseBinding() *refusal {
	r := fatal("channel_binding", stateInvalidAuth, "SCRAM authentication with channel binding does not pass the proxy")
	r.detail = "The client and the server both have TLS and could bind the authentication to it, but it is not the same TLS: " +
		"it ends at the proxy, which shows another certificate than the server."
	r.hint = "Connect with channel_binding=disable, or give the proxy the server's own certificate, or connect the proxy to the server without TLS."
	return r
}

// refuseIdle ends a session that holds up the next holder and does nothing.
func refuseIdle() *refusal {
	return fatal("idle", stateIdleInTransaction, "terminating connection due to idle-in-transaction timeout")
}

// refuseUnfenced is for a database in which nothing can be checked.
func refuseUnfenced(database string) *refusal {
	r := fatal("unfenced", stateCannotFence, "fence: database %q has no fence that this proxy can use", database)
	r.hint = "Run: fenceproxy migrate up"
	return r
}

// refusePrepare is for a session in which nothing can be checked, though the
// database has the fence.
func refusePrepare(err *serverError) *refusal {
	r := fatal("unfenced", err.code, "fence: the proxy cannot prepare the session: %s", err.message)
	r.hint = err.hint
	return r
}

func refuseTooLong(most int) *refusal {
	r := fatal("too_long", stateTooLong, "the statement is longer than the %d bytes that the proxy reads", most)
	r.hint = "Raise max_message, or send values as parameters or by COPY."
	return r
}
