package zkconn

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/wait"
)

// Call is a request that was started. It is done at the latest when the session
// is closed.
type Call[T any] struct {
	done  chan struct{}
	value T // these are set when done is closed
	err   error
}

// Start sends a request, in a goroutine, since the client knows no contexts. Two
// that are started one after the other are on their way together.
func Start[T any](s *Session, request func(*zk.Conn) (T, error)) *Call[T] {
	c := &Call[T]{done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Over() != nil {
		c.err = s.Over()
		close(c.done)
		return c
	}
	s.calls.Go(func() {
		defer close(c.done)
		c.value, c.err = request(s.conn)
		if errors.Is(c.err, zk.ErrSessionExpired) || errors.Is(c.err, zk.ErrClosing) {
			s.End(ErrExpired)
			c.err = s.Over()
		}
	})
	return c
}

// Done reports whether the reply is known.
func (c *Call[T]) Done() bool { return closed(c.done) }

// Result is the reply of a call that is done.
func (c *Call[T]) Result() (T, error) { return c.value, c.err }

// Await waits for the reply, or for the end of ctx or of the session. The
// request may then still be carried out.
func Await[T any](ctx context.Context, s *Session, c *Call[T]) (T, error) {
	var none T
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		return none, wait.Ended(ctx)
	case <-s.Context().Done():
		return none, s.Over()
	}
}

// Ask sends a request and waits for its reply.
func Ask[T any](ctx context.Context, s *Session, request func(*zk.Conn) (T, error)) (T, error) {
	return Await(ctx, s, Start(s, request))
}

// Retry sends a request until it is answered, which must be safe to repeat.
func (s *Session) Retry(ctx context.Context, request func() error) error {
	var pauses wait.Pauses
	for {
		err := request()
		if err == nil || Answered(err) || ctx.Err() != nil {
			return err
		}
		if !pauses.Pause(ctx) {
			return wait.Ended(ctx)
		}
	}
}

// Answered reports whether err is ZooKeeper's own answer, or one of this
// package: to repeat the request would not change it, and the request that got
// it was not carried out. All other errors are of a connection that ended.
func Answered(err error) bool {
	for _, answer := range []error{
		zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrInvalidACL,
		zk.ErrAuthFailed, zk.ErrNoChildrenForEphemerals, zk.ErrBadArguments, zk.ErrAPIError,
		zk.ErrInvalidPath, zk.ErrShortBuffer, locks.ErrLost, locks.ErrHeld, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return strings.HasPrefix(err.Error(), "unknown error: ") // codes that the client has no name for
}
