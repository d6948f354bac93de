package zklock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

// freshSessions is how many sessions an acquisition tries that turn out to be
// over before it got a place on them.
const freshSessions = 3

func (l *Locker) acquire(ctx context.Context, resource string, mode guard.Mode, wait bool) (locks.Lease, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return nil, err
	}
	if l.config.Single && mode == guard.Shared {
		return nil, fmt.Errorf("acquire %q: shared lock of a single node: %w", resource, guard.ErrUnsupported)
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

// errStale: the session was over before the acquisition got its place.
var errStale = fmt.Errorf("%w: session ended before the lock was asked for", locks.ErrLost)

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
	err = le.queueUp(ctx, wait)
	if err == nil {
		err = le.grant(ctx)
	}
	if err != nil {
		return nil, le.giveUp(ctx, err)
	}
	return le, nil
}

// queueUp puts the lease into the queue and returns when nobody is ahead of it
// any more.
func (le *lease) queueUp(ctx context.Context, wait bool) error {
	// From here on ctx ends with the lease too: its session is lost, or
	// somebody removed its node.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(le.ctx, cancel)()

	s, p := le.session, &le.place
	if p.single {
		return le.contend(ctx, wait)
	}
	if !wait {
		if err := s.free(ctx, p); err != nil {
			return err
		}
	}
	alone, err := s.enqueue(ctx, p)
	if err != nil {
		return err
	}
	le.expectDeletion()
	if alone {
		return nil
	}
	ahead, err := s.look(ctx, p)
	if err == nil && ahead != "" && !wait {
		return locks.ErrHeld
	}
	for err == nil && ahead != "" {
		ahead, err = s.follow(ctx, p, ahead)
	}
	return err
}

// follow waits until the node of the given name is gone, then looks again who
// is ahead: that node may have been one that waited, and gave up.
func (s *session) follow(ctx context.Context, p *place, name string) (ahead string, err error) {
	gone := make(chan struct{}, 1)
	w := s.watch(p.dir+"/"+name, func() { gone <- struct{}{} })
	defer w.stop()
	if _, err := w.arm(ctx); err != nil {
		if errors.Is(err, zk.ErrNoNode) {
			return s.look(ctx, p)
		}
		return "", denied(err, "read", w.path)
	}
	// Nobody shall wait for ever because an event was lost.
	for {
		quiet, happened := time.NewTimer(s.locker.config.TTL), false
		select {
		case <-gone:
			happened = true
		case <-quiet.C:
		case <-ctx.Done():
		}
		quiet.Stop()
		ahead, err := s.look(ctx, p)
		if err != nil || ahead != name || happened {
			return ahead, err
		}
	}
}

// grant makes the token, unless the lease was lost on the way.
func (le *lease) grant(ctx context.Context) error {
	issuer, err := le.session.theIssuer(ctx)
	if err != nil {
		return err
	}
	if err := le.Err(); err != nil {
		return err
	}
	le.token.Number, le.token.Issuer = le.place.number, issuer
	return le.token.Validate()
}

// giveUp ends an acquisition that failed with err, leaves nothing of it behind,
// and returns what to tell the caller.
func (le *lease) giveUp(ctx context.Context, err error) error {
	p, s := &le.place, le.session
	if errors.Is(err, errDeleted) {
		le.deleted()
	}
	placed := p.path != ""
	le.cancel(errAbandoned)
	if lost := context.Cause(le.ctx); !errors.Is(lost, errAbandoned) {
		le.leave()
		if s.ctx.Err() != nil && !placed && !errors.Is(lost, locks.ErrClosed) {
			return errStale
		}
		return lost
	}
	if placed || p.doubtful {
		le.clear(ctx, err)
	}
	le.leave()
	if ctx.Err() != nil {
		return ended(ctx)
	}
	return err
}

// clear removes the node of an acquisition that failed with err: in the
// background, but for a try that was in vain, which shall not be in the way of
// the next one.
func (le *lease) clear(ctx context.Context, err error) {
	if errors.Is(err, locks.ErrHeld) {
		if _, err := le.session.remove(ctx, &le.place); err == nil {
			return
		}
	}
	le.sweep()
}
