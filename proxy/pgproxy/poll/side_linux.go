package poll

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// mode says who has a side of a connection.
type mode uint8

const (
	owned    mode = iota // its goroutine works
	waiting              // its goroutine waits for the loop
	idle                 // its goroutine waits, and the loop may do a step
	stepping             // the loop does a step
)

// side is one direction of a connection.
type side struct {
	ready atomic.Bool // the loop has said that it is, since it was last tried

	mu      sync.Mutex
	mode    mode
	step    func() bool
	expired bool // the deadline has passed
	closed  bool
	timer   *time.Timer
	epoch   int           // of deadlines: a timer that comes too late means nothing
	wake    chan struct{} // has an element when mode has become owned again
}

func (s *side) happened() {
	s.ready.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.mode {
	case waiting:
		s.hand()
	case idle:
		s.mode = stepping
		s.mu.Unlock()
		stays := s.step()
		s.mu.Lock()
		s.mode = idle
		if !stays || s.end() != nil {
			s.hand()
		}
	case owned, stepping:
	}
}

// hand gives the side back to its goroutine.
func (s *side) hand() {
	s.mode = owned
	s.wake <- struct{}{}
}

// end is why the side can no longer be waited for.
func (s *side) end() error {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.expired:
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (s *side) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end()
}

// wait returns when the side is ready, or has ended.
func (s *side) wait() error {
	s.mu.Lock()
	if err := s.end(); err != nil || s.ready.Load() {
		s.mu.Unlock()
		return err
	}
	s.mode = waiting
	s.mu.Unlock()
	<-s.wake
	return s.ended()
}

// change changes whether a side has ended, and wakes who waits for it if it has.
func (s *side) change(to func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to()
	if s.end() != nil && (s.mode == waiting || s.mode == idle) {
		s.hand()
	}
}

func (s *side) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

func (s *side) setDeadline(t time.Time) (err error) {
	s.change(func() {
		if s.closed {
			err = net.ErrClosed
			return
		}
		s.stopTimer()
		s.epoch++
		epoch, left := s.epoch, time.Until(t)
		s.expired = !t.IsZero() && left <= 0
		if !t.IsZero() && left > 0 {
			s.timer = time.AfterFunc(left, func() {
				s.change(func() { s.expired = s.expired || s.epoch == epoch })
			})
		}
	})
	return err
}
