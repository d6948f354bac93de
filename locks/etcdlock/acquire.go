package etcdlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

// freshSessions is how many sessions an acquisition tries that etcd turns out
// to have forgotten before it got a place on them.
const freshSessions = 3

func (l *Locker) acquire(ctx context.Context, resource string, mode guard.Mode, wait bool) (locks.Lease, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		lease, err := l.attempt(ctx, resource, mode, wait)
		switch {
		case err == nil:
			return lease, nil
		case errors.Is(err, errStale) && try < freshSessions:
			continue
		}
		return nil, fmt.Errorf("acquire %q: %w", resource, err)
	}
}

// errStale: the session was gone before the acquisition got its place.
var errStale = fmt.Errorf("%w before the lock was asked for", errRevoked)

// attempt acquires on the session of the moment.
func (l *Locker) attempt(ctx context.Context, resource string, mode guard.Mode, wait bool) (*lease, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	s, err := l.join(ctx)
	if err != nil {
		return nil, err
	}
	le := newLease(s, resource, mode)
	seen, err := le.queueUp(ctx, wait)
	if err == nil {
		err = le.grant(seen)
	}
	if err != nil {
		return nil, le.giveUp(ctx, err)
	}
	return le, nil
}

// queueUp puts the lease into the queue and returns when nobody is ahead of it
// any more.
func (le *lease) queueUp(ctx context.Context, wait bool) (view, error) {
	// From here on ctx ends with the lease too: its session is lost, or
	// somebody removed its key.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(le.ctx, cancel)()

	l := le.session.locker
	seen, err := l.enqueue(ctx, &le.place, wait)
	if err != nil {
		return view{}, err
	}
	le.watch.Reset(watchAfter)
	for pause := minPause; err == nil && seen.ahead != ""; {
		var broken error
		if seen, broken, err = l.follow(ctx, &le.place, seen); broken == nil {
			pause = minPause
			continue
		}
		// Without watches this is a poll.
		l.config.Logger.Debug("watch ended", keyHolder, le.place.holder, keyError, broken)
		sleep(ctx, pause)
		pause = min(2*pause, maxPause)
	}
	return seen, err
}

// follow waits until the key ahead is gone, or until it may have missed that,
// for a reason that it returns as broken; then it looks again.
func (l *Locker) follow(ctx context.Context, p *place, seen view) (now view, broken, err error) {
	// The watch starts now, not at the revision of seen: etcd serves watches
	// that start in the past from a loop that runs every 100 ms. What happened
	// between the two must be looked at instead.
	w := l.watchDelete(ctx, seen.ahead, 0)
	defer w.stop()
	rev, broken := w.created(ctx)
	if broken == nil && rev > seen.rev {
		now, err = l.look(ctx, p)
		if err != nil || now.ahead != seen.ahead {
			return now, nil, err
		}
	}
	if broken == nil {
		broken = w.deleted(ctx)
	}
	now, err = l.look(ctx, p)
	return now, broken, err
}

// grant makes the token, unless the lease was lost on the way.
func (le *lease) grant(seen view) error {
	if err := le.Err(); err != nil {
		return err
	}
	le.token.Number, le.token.Issuer = le.place.rev, seen.issuer
	return le.token.Validate()
}

// giveUp ends an acquisition that failed with err, leaves nothing of it behind,
// and returns what to tell the caller.
func (le *lease) giveUp(ctx context.Context, err error) error {
	p := &le.place
	if isLeaseNotFound(err) {
		le.session.end(errRevoked)
	}
	if errors.Is(err, errDeleted) {
		le.deleted()
	}
	if lost := le.end(errAbandoned); !errors.Is(lost, errAbandoned) {
		if errors.Is(lost, errRevoked) && p.rev == 0 {
			return errStale
		}
		return lost
	}
	if p.rev != 0 || p.doubtful {
		le.session.locker.sweep(le.session, p)
	} else {
		le.session.freeSlot(p)
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	return err
}
