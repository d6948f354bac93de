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
	if err == nil && ahead.name != "" && !wait {
		return locks.ErrHeld
	}
	for err == nil && ahead.name != "" {
		ahead, err = s.follow(ctx, p, ahead)
	}
	p.rings = err == nil && p.entry.mode == guard.Exclusive
	return err
}

// follow waits until the node ahead is gone, then returns what p waits for now.
// It has to look again: that node may have been one that waited, and gave up. But
// not if there was no other, or if it rang.
func (s *session) follow(ctx context.Context, p *place, ahead next) (next, error) {
	free := make(chan bool, 2) // what an event says, in the order of ZooKeeper
	if !ahead.only && ahead.mode == guard.Exclusive {
		bell := s.watch(p.dir+"/"+ahead.bell(), func(event zk.EventType) {
			if event == zk.EventNodeCreated {
				free <- true
			}
		})
		defer bell.stop()
		if err := bell.armMissing(ctx); err != nil {
			return next{}, denied(err, "read", bell.path)
		}
	}
	w := s.watch(p.dir+"/"+ahead.name, func(event zk.EventType) { free <- ahead.only && event == zk.EventNodeDeleted })
	defer w.stop()
	switch _, err := w.arm(ctx); {
	case errors.Is(err, zk.ErrNoNode):
		s.forget(w.path)
		return s.after(ctx, p, ahead.only)
	case err != nil:
		return next{}, denied(err, "read", w.path)
	}
	if _, err := s.theIssuer(ctx); err != nil { // known then when the lock is granted
		return next{}, err
	}
	for {
		quiet := time.NewTimer(s.locker.config.TTL)
		select {
		case is := <-free:
			quiet.Stop()
			return s.after(ctx, p, is)
		case <-quiet.C:
		case <-ctx.Done():
			quiet.Stop()
		}
		// Nobody shall wait for ever because an event was lost.
		if now, err := s.look(ctx, p); err != nil || now.name != ahead.name {
			return now, err
		}
	}
}

// after returns what p waits for after an event.
func (s *session) after(ctx context.Context, p *place, free bool) (next, error) {
	if free {
		return next{}, nil
	}
	return s.look(ctx, p)
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
		if s.ctx.Err() != nil && !placed && !p.doubtful && !errors.Is(lost, locks.ErrClosed) {
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
