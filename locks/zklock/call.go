package zklock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/locks"
)

const (
	minPause = 20 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

// call is a request that was started. It is done at the latest when the session
// is closed.
type call[T any] struct {
	done  chan struct{}
	value T // these are set when done is closed
	err   error
}

// start sends a request, in a goroutine, since the client knows no contexts. Two
// that are started one after the other are on their way together.
func start[T any](s *session, request func(*zk.Conn) (T, error)) *call[T] {
	c := &call[T]{done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		c.err = context.Cause(s.ctx)
		close(c.done)
		return c
	}
	s.calls.Go(func() {
		defer close(c.done)
		c.value, c.err = request(s.conn)
		if errors.Is(c.err, zk.ErrSessionExpired) || errors.Is(c.err, zk.ErrClosing) {
			s.end(errRevoked)
			c.err = context.Cause(s.ctx)
		}
	})
	return c
}

// await waits for the reply, or for the end of ctx or of the session. The
// request may then still be carried out.
func await[T any](ctx context.Context, s *session, c *call[T]) (T, error) {
	var none T
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		return none, ended(ctx)
	case <-s.ctx.Done():
		return none, context.Cause(s.ctx)
	}
}

// ask sends a request and waits for its reply.
func ask[T any](ctx context.Context, s *session, request func(*zk.Conn) (T, error)) (T, error) {
	return await(ctx, s, start(s, request))
}

// retry sends a request until it is answered, which must be safe to repeat.
func (s *session) retry(ctx context.Context, request func() error) error {
	pause := minPause
	for {
		err := request()
		if err == nil || answered(err) || ctx.Err() != nil {
			return err
		}
		if !sleep(ctx, pause/2+rand.N(pause)) { //nolint:gosec // nobody gains from knowing when we retry
			return ended(ctx)
		}
		pause = min(2*pause, maxPause)
	}
}

// answered reports whether err is ZooKeeper's own answer, or one of this
// package: to repeat the request would not change it, and the request that got
// it was not carried out. All other errors are of a connection that ended.
func answered(err error) bool {
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

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ended is the error of a ctx that has ended, with its cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
