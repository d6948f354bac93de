package zklock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

var _ locks.Lease = (*lease)(nil)

const (
	// watchAfter is how long an acquisition has to be under way, waiting or
	// held, before its own node is watched. Shorter ones do not pay for a watch.
	watchAfter = 200 * time.Millisecond
	// releaseTimeout is how long Release waits for ZooKeeper.
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
	own      *time.Timer // starts watchOwn
	path     string      // of the node, once it is there
	left     atomic.Bool // the session
	released atomic.Bool
}

// newLease makes a lease of a session that the caller has joined.
func newLease(s *session, resource string, mode guard.Mode) *lease {
	holder := locks.NewID()
	le := &lease{
		session: s,
		place:   s.locker.place(resource, holder, mode, s.id),
		token:   guard.Token{Resource: resource, Mode: mode, Holder: holder},
	}
	le.ctx, le.cancel = context.WithCancelCause(s.ctx)
	le.own = time.AfterFunc(math.MaxInt64, le.spawnWatch)
	return le
}

// Token implements locks.Lease.
func (le *lease) Token() guard.Token { return le.token }

// Lost implements locks.Lease.
func (le *lease) Lost() <-chan struct{} { return le.ctx.Done() }

// Deadline implements locks.Lease. It moves with each sign of life of the
// ensemble's leader.
func (le *lease) Deadline() time.Time { return le.session.until() }

// Err implements locks.Lease. After a pause of the process it knows that the
// deadline has passed before the timer does.
func (le *lease) Err() error {
	le.session.expireIfDue()
	return context.Cause(le.ctx)
}

// Release implements locks.Lease. It waits at most three seconds for ZooKeeper;
// a node that could not be removed by then is removed in the background, and
// the session takes no new locks, so that at the latest its end removes it.
func (le *lease) Release(ctx context.Context) error {
	if le.released.Swap(true) {
		return nil
	}
	le.session.expireIfDue()
	le.cancel(locks.ErrReleased)
	// Only now may the session end: that would remove the node as well, and it
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
	switch found, err := le.session.remove(ctx, &le.place); {
	case err != nil:
		le.sweep()
		return fmt.Errorf("release %q: %w", le.token.Resource, err)
	case !found:
		return errDeleted
	}
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
		le.own.Stop()
		le.session.leave()
	}
}

// deleted ends the lease because its node is gone.
func (le *lease) deleted() {
	if errors.Is(le.end(errDeleted), errDeleted) {
		le.session.locker.config.Logger.Warn("node of a lock was deleted", keyResource, le.token.Resource, keyHolder, le.token.Holder)
	}
}

// expectDeletion has the lease watch its own node, from some time on: it may be
// deleted by hand.
func (le *lease) expectDeletion() {
	le.path = le.place.path
	le.own.Reset(watchAfter)
}

// ownEvent takes an event of the lease's own node. That the node is gone has to be
// known before later events are heard of, which may be taken for a grant.
func (le *lease) ownEvent(event zk.EventType) {
	switch {
	case le.ctx.Err() != nil:
	case event == zk.EventNodeDeleted:
		le.deleted()
	default:
		le.spawnWatch()
	}
}

func (le *lease) spawnWatch() {
	if le.ctx.Err() == nil {
		le.session.locker.spawn(le.watchOwn)
	}
}

// watchOwn ends the lease if its node is gone, and else returns, to be called
// again when something happens to it.
func (le *lease) watchOwn() {
	w := le.session.watch(le.path, le.ownEvent)
	context.AfterFunc(le.ctx, w.stop)
	data, err := w.arm(le.ctx)
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && le.place.single && string(data) != le.token.Holder:
		le.deleted()
	case err != nil && le.ctx.Err() == nil:
		le.session.locker.config.Logger.Warn("watch node of a lock", keyHolder, le.token.Holder, keyError, err)
	}
}
