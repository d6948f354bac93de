package etcdlock

import (
	"context"
	"errors"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/session"
	"github.com/fenceproxy/fenceproxy/locks/internal/wait"
)

func (l *Locker) acquire(ctx context.Context, resource string, mode guard.Mode, waits bool) (locks.Lease, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return nil, err
	}
	return session.Attempt(resource, func() (locks.Lease, error) { return l.attempt(ctx, resource, mode, waits) })
}

// attempt acquires on the session of the moment.
func (l *Locker) attempt(ctx context.Context, resource string, mode guard.Mode, waits bool) (locks.Lease, error) {
	if ctx.Err() != nil {
		return nil, wait.Ended(ctx)
	}
	s, err := l.sessions.Join(ctx)
	if err != nil {
		return nil, err
	}
	le := newLease(s, resource, mode)
	seen, err := le.queueUp(ctx, waits)
	if err == nil {
		err = le.Grant(le.place.rev, seen.issuer)
	}
	if err != nil {
		return nil, le.giveUp(ctx, err)
	}
	return le, nil
}

// queueUp puts the lease into the queue and returns when nobody is ahead of it
// any more.
func (le *lease) queueUp(ctx context.Context, waits bool) (view, error) {
	ctx, cancel := le.Within(ctx)
	defer cancel()

	l := le.session.locker
	seen, err := l.enqueue(ctx, &le.place, waits)
	if err != nil {
		return view{}, err
	}
	le.Queued()
	for pauses := (wait.Pauses{}); err == nil && seen.ahead != ""; {
		var broken error
		if seen, broken, err = l.follow(ctx, &le.place, seen); broken == nil {
			pauses = wait.Pauses{}
			continue
		}
		// Without watches this is a poll.
		l.config.Logger.Debug("watch ended", keyHolder, le.place.holder, keyError, broken)
		pauses.Pause(ctx)
	}
	return seen, err
}

// follow waits until the key ahead is gone, or until it may have missed that, for
// a reason that it returns as broken unless it is to be expected; then it looks
// again.
func (l *Locker) follow(ctx context.Context, p *place, seen view) (now view, broken, err error) {
	broken = l.watches.await(ctx, seen.ahead, seen.rev)
	if errors.Is(broken, errMissed) {
		broken = nil
	}
	now, err = l.look(ctx, p)
	return now, broken, err
}

// giveUp ends an acquisition that failed with err, leaves nothing of it behind,
// and returns what to tell the caller.
func (le *lease) giveUp(ctx context.Context, err error) error {
	p := &le.place
	if isLeaseNotFound(err) {
		le.session.End(errRevoked)
	}
	if errors.Is(err, errDeleted) {
		le.deleted()
	}
	if lost := le.End(session.ErrAbandoned); !errors.Is(lost, session.ErrAbandoned) {
		if errors.Is(lost, errRevoked) && p.rev == 0 {
			return session.ErrStale
		}
		return lost
	}
	if p.rev != 0 || p.doubtful {
		le.sweep()
	} else {
		le.session.freeSlot(p)
	}
	if ctx.Err() != nil {
		return wait.Ended(ctx)
	}
	return err
}
