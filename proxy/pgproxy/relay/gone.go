package relay

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/stream"
)

// How often what a client has left running is cancelled, and for how long.
const (
	shortestPause = 20 * time.Millisecond
	longestPause  = 640 * time.Millisecond
	cancelTime    = 10 * time.Second
)

// clientGone ends a session whose client cannot be read any more. What it has
// left running at the server is cancelled: nobody waits for it, and it may hold
// up the next holder.
func (s *session) clientGone(ctx context.Context, err error) error {
	s.mu.Lock()
	running, ended := !s.machine.Quiet(), s.ended || s.over
	s.mu.Unlock()
	if running && !ended && s.secret != nil && !isOurs(err) {
		s.cancelAll(ctx)
	}
	if ended || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errOver
	}
	return err
}

// cancelAll cancels what runs at the server until that has ended the session. A
// cancel that overtakes what it is for finds an idle backend and is lost, and of
// several messages it ends one. The server hears that no more will come, so that
// it does not wait for the rest of what the client has begun.
func (s *session) cancelAll(ctx context.Context) {
	s.closeWrite()
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	warned := false
	for pause := shortestPause; ctx.Err() == nil; pause = min(2*pause, longestPause) {
		if err := s.Config.Cancel(ctx, s.secret); err != nil && !warned { // the next may get through
			s.Log.Warn("cancel what a client has left running", keyError, err)
			warned = true
		}
		if s.endsWithin(ctx, pause) {
			return
		}
	}
}

// endsWithin waits for the server to end the session.
func (s *session) endsWithin(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return errors.Is(s.awaitEnd(ctx), errOver)
}

// awaitEnd returns when the server has ended the session: errOver, or why not.
func (s *session) awaitEnd(ctx context.Context) error {
	return s.awaitWhile(ctx, nil, func() bool { return false })
}

// closeWrite ends what the server is sent.
func (s *session) closeWrite() {
	if half, ok := s.Server.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// isOurs reports whether an error is the proxy's own view of a message, or its own
// fault, and no word of the connection.
func isOurs(err error) bool {
	return errors.Is(err, errPanicked) || errors.Is(err, errBadLength) || errors.Is(err, stream.ErrTooLong) || errors.Is(err, errStatementTooLong)
}
