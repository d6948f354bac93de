package handshake

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
)

// errDraining ends handshakes when the server shuts down.
var errDraining = errors.New("the proxy is shutting down")

// Run does the handshake within its time, and until drain ends. From then on both
// connections are whose the Login is; after an error, call End, which closes them.
func (h *Handshake) Run(ctx, drain context.Context) (*Login, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeout(ctx, h.config.Timeout)
	defer stop()
	defer context.AfterFunc(drain, func() { cancel(errDraining) })()
	h.release = append(h.release, socket.InterruptAtEnd(ctx, h.client))
	l, err := h.run(ctx)
	// Also after an error: the end of ctx must not interrupt what the client is
	// told then.
	if kept := h.keep(); err == nil && !kept {
		err = context.Cause(ctx)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && !h.mute {
		err = ended(cause)
	}
	return l, err
}

// errPanicked ends a handshake that has panicked, and no other client's.
var errPanicked = errors.New("the handshake has panicked")

// recovered makes an error of a panic.
func (h *Handshake) recovered(err *error) {
	if v := recover(); v != nil {
		h.log.Error("handshake panicked", keyError, v, keyStack, string(debug.Stack()))
		*err = errPanicked
	}
}

// run is the whole handshake. When it fails, close what it leaves.
func (h *Handshake) run(ctx context.Context) (_ *Login, err error) {
	defer h.recovered(&err)
	s, err := h.open(ctx)
	if err != nil {
		return nil, err
	}
	h.log = h.log.With(keyUser, s.user, keyDatabase, s.database)
	if err := h.admit(s); err != nil {
		return nil, err
	}
	if !h.enter() {
		return nil, refusal.TooMany()
	}
	if err := h.connect(ctx, h.config.Upstream.TLSMode); err != nil {
		return nil, err
	}
	protocol, err := h.authenticate(ctx, s)
	if err != nil {
		return nil, err
	}
	return &Login{
		Client: h.client, Server: h.upstream, Protocol: protocol,
		User: s.user, Database: s.database, Application: s.application, Replication: s.replication,
		Log: h.log,
	}, nil
}

// ended is why a handshake was interrupted.
func ended(cause error) error {
	switch {
	case errors.Is(cause, errDraining):
		return refusal.Draining()
	case errors.Is(cause, context.DeadlineExceeded):
		return refusal.Timeout()
	default:
		return cause
	}
}

// TurnAway ends, without a word, a client beyond those that may be in a handshake
// at a time: there are too many to tell them.
func (h *Handshake) TurnAway() {
	h.mute = true
	h.End(refusal.TooMany())
}

// End ends a handshake that has come to nothing, and tells the client why.
func (h *Handshake) End(err error) {
	if h.upstream != nil {
		h.upstream.Close()
	}
	defer h.client.Close()
	var r *refusal.Error
	switch {
	case errors.As(err, &r):
		h.config.Metrics.Refused.WithLabelValues(r.Cause).Inc()
		h.log.Warn("client refused", keyCause, r.Cause, keyError, err)
		if h.mute {
			return
		}
		_ = h.client.SetDeadline(time.Now().Add(refusal.TimeLimit))
		if _, err := h.client.Write(r.Wire()); err == nil {
			_ = socket.LingerClose(h.client)
		}
	case errors.Is(err, errRejected):
		h.config.Metrics.Refused.WithLabelValues("server").Inc()
		h.log.Debug("client refused by the server")
	case errors.Is(err, errDone), errors.Is(err, io.EOF):
	default:
		h.log.Debug("client gone before it was authenticated", keyError, err)
	}
}
