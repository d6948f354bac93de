package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/session"
)

var _ locks.Lease = (*lease)(nil)

// lease is one acquisition: a place in a queue, then a granted lock.
type lease struct {
	*session.Lease
	session *zkSession
	place   place
	path    string // of the node, once it is there
}

// newLease makes a lease of a session that the caller has joined.
func newLease(s *zkSession, resource string, mode guard.Mode) *lease {
	le := &lease{session: s}
	le.Lease = session.NewLease(s.Life, resource, mode, le.spawnWatch)
	le.place = s.locker.place(resource, le.Token().Holder, mode, s.ID())
	return le
}

// Release implements locks.Lease. It waits at most three seconds for ZooKeeper;
// a node that could not be removed by then is removed in the background, and
// the session takes no new locks, so that at the latest its end removes it.
func (le *lease) Release(ctx context.Context) error {
	return le.Lease.Release(ctx, func(ctx context.Context) error {
		switch found, err := le.session.remove(ctx, &le.place); {
		case err != nil:
			le.sweep()
			return fmt.Errorf("release %q: %w", le.Token().Resource, err)
		case !found:
			return errDeleted
		}
		return nil
	})
}

// deleted ends the lease because its node is gone.
func (le *lease) deleted() {
	if errors.Is(le.End(errDeleted), errDeleted) {
		le.session.locker.config.Logger.Warn("node of a lock was deleted", keyResource, le.Token().Resource, keyHolder, le.Token().Holder)
	}
}

// queued has the lease watch its own node, from some time on.
func (le *lease) queued() {
	le.path = le.place.path
	le.Queued()
}

// ownEvent takes an event of the lease's own node. That the node is gone has to be
// known before later events are heard of, which may be taken for a grant.
func (le *lease) ownEvent(event zk.EventType) {
	switch {
	case le.Context().Err() != nil:
	case event == zk.EventNodeDeleted:
		le.deleted()
	default:
		le.spawnWatch()
	}
}

func (le *lease) spawnWatch() {
	if le.Context().Err() == nil {
		le.session.locker.sessions.Go(le.watchOwn)
	}
}

// watchOwn ends the lease if its node is gone, and else returns, to be called
// again when something happens to it.
func (le *lease) watchOwn() {
	w := le.session.Watch(le.path, le.ownEvent)
	context.AfterFunc(le.Context(), w.Stop)
	data, err := w.Arm(le.Context())
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && le.place.single && string(data) != le.Token().Holder:
		le.deleted()
	case err != nil && le.Context().Err() == nil:
		le.session.locker.config.Logger.Warn("watch node of a lock", keyHolder, le.Token().Holder, keyError, err)
	}
}
