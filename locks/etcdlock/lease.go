package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

var _ locks.Lease = (*lease)(nil)

const (
	// watchAfter is how long an acquisition has to be under way, waiting or
	// held, before its own key is watched. Shorter ones do not pay for a watch.
	watchAfter = 200 * time.Millisecond
	// releaseTimeout is how long Release waits for etcd.
	releaseTimeout = 3 * time.Second
)

// errAbandoned is the cause of a lease that was never granted.
var errAbandoned = errors.New("acquisition was given up")

// lease is one acquisition: a place in a queue, then a granted lock.
type lease struct {
	session  *session
	place    place
	token    guard.Token // complete once granted
	ctx      context.Context
	cancel   context.CancelCauseFunc
	watch    *time.Timer // starts watchOwn
	left     atomic.Bool // the session
	released atomic.Bool
}

// newLease makes a lease of a session that the caller has joined.
func newLease(s *session, resource string, mode guard.Mode) *lease {
	holder := locks.NewID()
	le := &lease{
		session: s,
		place:   s.locker.config.place(resource, holder, mode, s.id, s.takeSlot()),
		token:   guard.Token{Resource: resource, Mode: mode, Holder: holder},
	}
	le.ctx, le.cancel = context.WithCancelCause(s.ctx)
	le.watch = time.AfterFunc(math.MaxInt64, func() { s.locker.spawn(le.watchOwn) })
	return le
}

// Token implements locks.Lease.
func (le *lease) Token() guard.Token { return le.token }

// Lost implements locks.Lease.
func (le *lease) Lost() <-chan struct{} { return le.ctx.Done() }

// Deadline implements locks.Lease. It moves with each renewal of the session.
func (le *lease) Deadline() time.Time { return le.session.until() }

// Err implements locks.Lease. After a pause of the process it knows that the
// deadline has passed before the timer does.
func (le *lease) Err() error {
	le.session.expireIfDue()
	return context.Cause(le.ctx)
}

// Release implements locks.Lease. It waits at most three seconds for etcd; a
// key that could not be removed by then is removed in the background, and the
// session takes no new locks, so that at the latest its end removes it.
func (le *lease) Release(ctx context.Context) error {
	if le.released.Swap(true) {
		return nil
	}
	le.session.expireIfDue()
	le.cancel(locks.ErrReleased)
	// Only now may the session end: that would remove the key as well, and it
	// would look as if somebody else had.
	defer le.leave()
	if cause := context.Cause(le.ctx); !errors.Is(cause, locks.ErrReleased) {
		return cause
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	l := le.session.locker
	found, err := l.remove(ctx, &le.place)
	switch {
	case err != nil:
		l.sweep(le.session, &le.place)
		return fmt.Errorf("release %q: %w", le.token.Resource, err)
	case !found && !errors.Is(context.Cause(le.session.ctx), locks.ErrClosed):
		return errDeleted
	}
	le.session.freeSlot(&le.place)
	return nil
}

// end ends the lease in this process and returns its cause, which is an
// earlier one if it had ended before.
func (le *lease) end(cause error) error {
	le.cancel(cause)
	le.leave()
	return context.Cause(le.ctx)
}

func (le *lease) leave() {
	if !le.left.Swap(true) {
		le.watch.Stop()
		le.session.leave()
	}
}

// deleted ends the lease because its key is gone.
func (le *lease) deleted() {
	if !errors.Is(le.end(errDeleted), errDeleted) {
		return
	}
	l := le.session.locker
	l.config.Logger.Warn("key of a lock was deleted", keyResource, le.token.Resource, keyHolder, le.token.Holder)
	if le.place.doubtful {
		l.sweep(le.session, &le.place) // else a late request brings the key back
	}
}

// watchOwn ends the lease when its key is deleted: by hand, or with its session
// before this process knows.
func (le *lease) watchOwn() {
	l := le.session.locker
	for from := le.place.rev + 1; le.ctx.Err() == nil; {
		w := l.watchDelete(le.ctx, le.place.key, from)
		err := w.deleted(le.ctx)
		w.stop()
		if err == nil {
			le.deleted()
			return
		}
		if errors.Is(err, errWatchQuiet) {
			continue
		}
		// The watch broke, or the past it asked for was compacted: whether the
		// key is there must be read.
		seen, err := l.look(le.ctx, &le.place)
		if errors.Is(err, errDeleted) {
			le.deleted()
			return
		}
		from = max(from, seen.rev+1)
		sleep(le.ctx, maxPause)
	}
}
