package lockstest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// stage is a testing.TB for a part of a test that has a goroutine, an end and a
// clean-up of its own.
type stage struct {
	testing.TB
	tell func(what string) // is told of each failure, of one at a time

	telling  sync.Mutex
	mu       sync.Mutex
	cleanups []func()
}

func (s *stage) fail(what string) {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.tell(what)
}

// run calls f, which a Fatal ends, and then cleans up.
func (s *stage) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.clear()
		f()
	}()
	<-done
}

// Cleanup implements testing.TB.
func (s *stage) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

func (s *stage) clear() {
	for {
		s.mu.Lock()
		last := len(s.cleanups) - 1
		if last < 0 {
			s.mu.Unlock()
			return
		}
		f := s.cleanups[last]
		s.cleanups = s.cleanups[:last]
		s.mu.Unlock()
		f()
	}
}

// Logf implements testing.TB. What a locker says when it is closed is not worth
// to be said a thousand times.
func (s *stage) Logf(string, ...any) {}

// Error implements testing.TB.
func (s *stage) Error(args ...any) { s.fail(fmt.Sprint(args...)) }

// Errorf implements testing.TB.
func (s *stage) Errorf(format string, args ...any) { s.fail(fmt.Sprintf(format, args...)) }

// Fatal implements testing.TB.
func (s *stage) Fatal(args ...any) {
	s.fail(fmt.Sprint(args...))
	runtime.Goexit()
}

// Fatalf implements testing.TB.
func (s *stage) Fatalf(format string, args ...any) {
	s.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}
