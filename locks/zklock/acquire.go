package zklock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/session"
	"github.com/fenceproxy/fenceproxy/locks/internal/wait"
)

func (l *Locker) acquire(ctx context.Context, resource string, mode guard.Mode, waits bool) (locks.Lease, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return nil, err
	}
	if l.config.Single && mode == guard.Shared {
		return nil, fmt.Errorf("acquire %q: shared lock of a single node: %w", resource, guard.ErrUnsupported)
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
	err = le.queueUp(ctx, waits)
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
func (le *lease) queueUp(ctx context.Context, waits bool) error {
	ctx, cancel := le.Within(ctx)
	defer cancel()

	s, p := le.session, &le.place
	if p.single {
		return le.contend(ctx, waits)
	}
	if !waits {
		if err := s.free(ctx, p); err != nil {
			return err
		}
	}
	alone, err := s.enqueue(ctx, p)
	for err == nil && p.entry.void() {
		if err = s.startOver(ctx, p, waits); err == nil {
			alone, err = s.enqueue(ctx, p)
		}
	}
	if err != nil {
		return err
	}
	le.queued()
	if alone {
		return nil
	}
	ahead, err := s.look(ctx, p)
	if err == nil && ahead.name != "" && !waits {
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
func (s *zkSession) follow(ctx context.Context, p *place, ahead next) (next, error) {
	path, bell := p.dir+"/"+ahead.name, p.bell(ahead.entry)
	free := make(chan bool, 2) // what an event says, in the order of ZooKeeper
	// On a new connection the client sets its watches again, those of many locks
	// by several requests: the bell's perhaps before that of the node. Then it is
	// not known which of them went first.
	connections := s.Connections()
	if !ahead.only && ahead.mode == guard.Exclusive {
		rung := s.Watch(bell, func(event zk.EventType) {
			if event == zk.EventNodeCreated {
				free <- s.Connections() == connections
			}
		})
		defer rung.Stop()
		if err := rung.ArmMissing(ctx); err != nil {
			return next{}, denied(err, "read", p.dir)
		}
	}
	w := s.Watch(path, func(event zk.EventType) { free <- ahead.only && event == zk.EventNodeDeleted })
	defer w.Stop()
	s.Once(path, func(event zk.EventType) { // also when p has given up
		if event == zk.EventNodeDeleted {
			s.silence(bell)
		}
	})
	if _, err := w.Arm(ctx); err != nil {
		if errors.Is(err, zk.ErrNoNode) {
			s.silence(bell)
			return s.after(ctx, p, ahead.only)
		}
		return next{}, denied(err, "read", path)
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
func (s *zkSession) after(ctx context.Context, p *place, free bool) (next, error) {
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
	return le.Grant(le.place.number, issuer)
}

// giveUp ends an acquisition that failed with err, leaves nothing of it behind,
// and returns what to tell the caller.
func (le *lease) giveUp(ctx context.Context, err error) error {
	p, s := &le.place, le.session
	if errors.Is(err, errDeleted) {
		le.deleted()
	}
	placed := p.path != ""
	if lost := le.Cancel(session.ErrAbandoned); !errors.Is(lost, session.ErrAbandoned) {
		le.Leave()
		if s.Over() != nil && !placed && !p.doubtful && !errors.Is(lost, locks.ErrClosed) {
			return session.ErrStale
		}
		return lost
	}
	if placed || p.doubtful {
		le.clear(ctx, err)
	}
	le.Leave()
	if ctx.Err() != nil {
		return wait.Ended(ctx)
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
