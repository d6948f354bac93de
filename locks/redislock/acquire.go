package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

// openTimeout is how long an acquisition tries to get an answer at all, if TTL
// is shorter.
const openTimeout = 5 * time.Second

func (l *Locker) acquire(ctx context.Context, resource string, mode guard.Mode, floor int64, op string) (locks.Lease, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return nil, err
	}
	if err := validFloor(floor); err != nil {
		return nil, fmt.Errorf("acquire %q: %w", resource, err)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("acquire %q: %w", resource, ended(ctx))
	}
	if !l.enter() {
		return nil, fmt.Errorf("acquire %q: %w", resource, locks.ErrClosed)
	}
	defer l.calls.Done()
	le := l.newLease(resource, mode, max(floor, l.config.Floor))
	if err := le.acquire(ctx, op); err != nil {
		return nil, fmt.Errorf("acquire %q: %w", resource, le.giveUp(ctx, err))
	}
	return le, nil
}

// acquire returns when the lease is granted.
func (le *lease) acquire(ctx context.Context, op string) error {
	l := le.locker
	if err := l.add(le); err != nil {
		le.absent = true
		return err
	}
	if err := le.queueUp(ctx, op); err != nil {
		return err
	}
	select {
	case <-le.granted:
	case <-le.ctx.Done():
		return context.Cause(le.ctx)
	case <-ctx.Done():
		return ended(ctx)
	}
	if err := le.Err(); err != nil {
		return err
	}
	if le.token.Number <= le.floor {
		return fmt.Errorf("number %d is not above %d", le.token.Number, le.floor)
	}
	if err := le.replicate(ctx); err != nil {
		return err
	}
	return le.token.Validate()
}

// queueUp asks for the lock, and gets it or a place in its queue.
func (le *lease) queueUp(ctx context.Context, op string) error {
	l := le.locker
	within := max(l.config.TTL, openTimeout)
	if !l.trusts(ctx, le.keys[0]) {
		if _, err := l.retry(ctx, le.ctx, within, func(ctx context.Context) (reply, error) {
			return reply{}, l.checkPolicy(ctx, le.keys[0])
		}); err != nil {
			le.absent = true
			return err
		}
	}
	le.doubtful.Store(true) // until there is an answer
	r, err := le.ask(ctx, le.ctx, within, op)
	le.doubtful.Store(r.doubtful)
	if err != nil {
		return err
	}
	switch r.state {
	case isGranted, isWaiting:
		le.heard(r)
		return nil
	case isBusy:
		le.absent = !r.doubtful
		return locks.ErrHeld
	}
	return errGone
}

// giveUp ends an acquisition that failed with err, leaves nothing of it behind,
// and returns what to tell the caller.
func (le *lease) giveUp(ctx context.Context, err error) error {
	cause := le.end(errAbandoned)
	switch {
	case le.absent:
	case errors.Is(cause, errGone) && !le.doubtful.Load():
	case errors.Is(cause, locks.ErrClosed): // Close gives it up
	default:
		le.sweep()
	}
	if !errors.Is(cause, errAbandoned) {
		return cause
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	return err
}
