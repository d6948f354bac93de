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

// reply is what a request came to.
type reply[T any] struct {
	value T
	err   error
}

// start sends a request, in a goroutine, since the client knows no contexts. Its
// reply comes at the latest when the session is closed. Two that are started
// one after the other are on their way together.
func start[T any](s *session, request func(*zk.Conn) (T, error)) <-chan reply[T] {
	got := make(chan reply[T], 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		got <- reply[T]{err: context.Cause(s.ctx)}
		return got
	}
	s.calls.Go(func() {
		value, err := request(s.conn)
		if errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrClosing) {
			s.end(errRevoked)
			err = context.Cause(s.ctx)
		}
		got <- reply[T]{value, err}
	})
	return got
}

// await waits for the reply, or for the end of ctx or of the session. The
// request may then still be carried out.
func await[T any](ctx context.Context, s *session, got <-chan reply[T]) (T, error) {
	var none T
	select {
	case r := <-got:
		return r.value, r.err
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
