package relay

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/poll"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/stream"
)

// presence is what is known of a client that nobody reads since up waits for the
// server.
type presence struct {
	hungUp atomic.Bool
	asked  bool // no loop tells when it hangs up
	heard  bool // all that it sent before has been read
	leaves bool // and that is, or may be, a goodbye
}

// askInterval is how often a connection that no loop waits for is asked whether
// its other end has hung up.
const askInterval = time.Second

// watchClient has up told when the client hangs up.
func (s *session) watchClient() {
	conn, ok := s.Client.(*poll.Conn)
	if s.client.asked = !ok; !ok {
		return
	}
	conn.OnHangUp(func() {
		s.client.hungUp.Store(true)
		s.nudge()
	})
}

// nudge has up look again at what it waits for.
func (s *session) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// errGone is a client that has hung up without a goodbye while up waited.
var errGone = errors.New("client has gone")

// await returns when a condition of the machine's holds, with errGone if the
// client goes before. It is up's.
func (s *session) await(ctx context.Context, holds func() bool) error {
	return s.awaitWhile(ctx, s.there, holds)
}

// awaitWhile is await for who asks otherwise, or not at all, whether the client is
// there.
func (s *session) awaitWhile(ctx context.Context, there, holds func() bool) error {
	var tick <-chan time.Time
	for {
		s.mu.Lock()
		held, ended := holds(), s.ended
		s.waiting = !held
		s.mu.Unlock()
		switch {
		case held:
			return nil
		case ended:
			return errOver
		case there != nil && !there():
			return errGone
		case there != nil && s.client.asked && tick == nil:
			ticker := time.NewTicker(askInterval)
			defer ticker.Stop()
			tick = ticker.C
		}
		select {
		case <-s.wake:
		case <-tick:
			s.client.hungUp.Store(s.client.hungUp.Load() || socket.HungUp(socket.Below(s.Client)))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// there reports whether the client still waits for what it has sent, or has left
// the proxy to do it.
func (s *session) there() bool {
	c := &s.client
	if !c.hungUp.Load() {
		return true
	}
	if !c.heard {
		c.heard, c.leaves = true, s.leaves()
	}
	return c.leaves
}

// mostUnread is how much is read of what a client has left behind to find the end
// of it.
const mostUnread = 1 << 20

var terminate = []byte{'X', 0, 0, 0, 4} //nolint:gochecknoglobals // never written to

// leaves reads what a client has sent before it hung up, which is there, and
// reports whether that ends with Terminate. Of what is too much to be read it is
// taken to.
func (s *session) leaves() bool {
	src := s.fromClient
	limit := len(src.Rest()) + mostUnread
	var err error
	for err == nil {
		err = src.More(limit)
	}
	return errors.Is(err, stream.ErrTooLong) || bytes.HasSuffix(src.Rest(), terminate)
}
