package etcdlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/session"
)

var _ locks.Lease = (*lease)(nil)

// lease is one acquisition: a place in a queue, then a granted lock.
type lease struct {
	*session.Lease
	session *etcdSession
	place   place
}

// newLease makes a lease of a session that the caller has joined.
func newLease(s *etcdSession, resource string, mode guard.Mode) *lease {
	le := &lease{session: s}
	le.Lease = session.NewLease(s.Life, resource, mode, le.watchOwn)
	le.place = s.locker.config.place(resource, le.Token().Holder, mode, s.id, s.takeSlot())
	return le
}

// Release implements locks.Lease. It waits at most three seconds for etcd; a
// key that could not be removed by then is removed in the background, and the
// session takes no new locks, so that at the latest its end removes it.
func (le *lease) Release(ctx context.Context) error {
	return le.Lease.Release(ctx, func(ctx context.Context) error {
		found, err := le.session.locker.remove(ctx, &le.place)
		switch {
		case err != nil:
			le.sweep()
			return fmt.Errorf("release %q: %w", le.Token().Resource, err)
		case !found && !errors.Is(le.session.Over(), locks.ErrClosed):
			return errDeleted
		}
		le.session.freeSlot(&le.place)
		return nil
	})
}

// sweep removes the key of a lease that is over, in the background: until it is
// gone or the session is, which takes the key with it.
func (le *lease) sweep() {
	s, l := le.session, le.session.locker
	l.sessions.Go(func() {
		s.Sweep(func(ctx context.Context) error {
			_, err := l.remove(ctx, &le.place)
			if err == nil {
				s.freeSlot(&le.place)
			}
			return err
		}, func(err error) {
			l.config.Logger.Warn("remove key of a lock", keyHolder, le.place.holder, keyError, err)
		})
	})
}

// deleted ends the lease because its key is gone.
func (le *lease) deleted() {
	if le.Context().Err() != nil {
		return // its holder has, or somebody has found out before
	}
	if !errors.Is(le.End(errDeleted), errDeleted) {
		return
	}
	l := le.session.locker
	l.config.Logger.Warn("key of a lock was deleted", keyResource, le.Token().Resource, keyHolder, le.Token().Holder)
	if le.place.doubtful {
		le.sweep() // else a late request brings the key back
	}
}
