package lockstest

import (
	"context"
	"errors"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

// lose tells the holder, or the waiter, that it is over.
func (sp *spot) lose() {
	if !isGranted(sp) {
		if !sp.service.brokenWaits {
			sp.once.Do(func() { close(sp.broken) })
		}
		return
	}
	if !sp.service.neverLost {
		sp.end(locks.ErrLost)
	}
}

func (sp *spot) end(err error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.err == nil {
		sp.err = err
		close(sp.lost)
	}
}

func (sp *spot) Token() guard.Token    { return sp.token }
func (sp *spot) Lost() <-chan struct{} { return sp.lost }

func (sp *spot) Err() error {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.err
}

func (sp *spot) Deadline() time.Time {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.deadline.IsZero() {
		return time.Now().Add(sp.locker.ttl)
	}
	return sp.deadline
}

func (sp *spot) Release(context.Context) error {
	s := sp.service
	sp.mu.Lock()
	again := sp.over
	sp.over = true
	sp.mu.Unlock()
	if again && !s.freesOthers {
		return nil
	}
	s.mu.Lock()
	down := s.down[sp.locker.addr]
	s.mu.Unlock()
	if down {
		return errors.New("nobody answers")
	}
	err := sp.Err()
	switch {
	case s.freesOthers: // by the name of the resource, and not by what it held
		s.mu.Lock()
		var first *spot
		if queue := s.queues[s.key(sp.token.Resource)]; len(queue) > 0 {
			first = queue[0]
		}
		s.mu.Unlock()
		if first != nil {
			s.remove(first)
		}
	case !s.keepsReleased:
		s.remove(sp)
	}
	if !s.silentRelease {
		sp.end(locks.ErrReleased)
	}
	if errors.Is(err, locks.ErrLost) {
		return err
	}
	return nil
}
