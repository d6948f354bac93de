package guardtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"

	"github.com/fenceproxy/fenceproxy/guard"
)

// add writes without asking anybody.
func (s *sound) add(resource, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resource(resource)
	r.written = append(r.written, value)
}

// set makes t the mark without asking anybody.
func (s *sound) set(t guard.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resource(t.Resource)
	r.mark, r.issuers[t.Issuer] = guard.Mark{Issuer: t.Issuer, Writer: t.Number, Holder: t.Holder}, true
}

// The targets below are wrong, each in one way, and each must be caught.

type withoutCheck struct{ sound }

func (s *withoutCheck) Write(_ context.Context, t guard.Token, value string) error {
	s.add(t.Resource, value)
	return nil
}

// checkThenWrite checks, and now and then writes two claims later.
type checkThenWrite struct {
	sound
	claimed sync.Cond
}

func newCheckThenWrite() *checkThenWrite {
	s := &checkThenWrite{}
	s.claimed.L = &s.mu
	return s
}

func (s *checkThenWrite) Claim(ctx context.Context, t guard.Token) error {
	defer s.claimed.Broadcast()
	return s.sound.Claim(ctx, t)
}

func (s *checkThenWrite) Write(ctx context.Context, t guard.Token, value string) error {
	if err := errors.Join(t.MayWrite(), s.Check(ctx, t)); err != nil {
		return err
	}
	if t.Number <= loadTokens-2 && strings.HasSuffix(value, "/3") { // under load, when each writer may stop
		s.mu.Lock()
		for s.resource(t.Resource).mark.Writer < t.Number+2 {
			s.claimed.Wait()
		}
		s.mu.Unlock()
	}
	s.add(t.Resource, value)
	return nil
}

func (s *checkThenWrite) Open(ctx context.Context, t guard.Token, value string) (func(context.Context) error, error) {
	if err := s.Check(ctx, t); err != nil {
		return nil, err
	}
	return func(context.Context) error {
		s.add(t.Resource, value)
		return nil
	}, nil
}

// oneAtATime refuses the current holder's writes beside each other.
type oneAtATime struct {
	sound
	busy sync.Mutex
}

func (s *oneAtATime) Write(ctx context.Context, t guard.Token, value string) error {
	if !s.busy.TryLock() {
		return &guard.RefusedError{Reason: guard.ErrStale, Token: t}
	}
	defer s.busy.Unlock()
	for range 1000 { // long enough to be met
		runtime.Gosched()
	}
	return s.sound.Write(ctx, t, value)
}

// liar says of every other write that it was not applied.
type liar struct {
	sound
	mu     sync.Mutex
	writes int
}

func (s *liar) Write(ctx context.Context, t guard.Token, value string) error {
	err := s.sound.Write(ctx, t, value)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes++; err == nil && s.writes%2 == 0 {
		return guard.WithOutcome(io.ErrUnexpectedEOF, guard.NotApplied)
	}
	return err
}

// forgetful acknowledges writes that it does not do.
type forgetful struct{ sound }

func (s *forgetful) Write(ctx context.Context, t guard.Token, value string) error {
	if strings.HasSuffix(value, "/5") {
		return errors.Join(t.MayWrite(), s.Check(ctx, t))
	}
	return s.sound.Write(ctx, t, value)
}

type lowersItsMark struct{ sound }

func (s *lowersItsMark) Claim(_ context.Context, t guard.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	s.set(t)
	return nil
}

type letsReadersWrite struct{ sound }

func (s *letsReadersWrite) Write(ctx context.Context, t guard.Token, value string) error {
	if err := s.Check(ctx, t); err != nil {
		return err
	}
	s.add(t.Resource, value)
	return nil
}

// ordersReaders compares readers with readers.
type ordersReaders struct{ sound }

func (s *ordersReaders) Claim(ctx context.Context, t guard.Token) error {
	if mark, _ := s.Mark(ctx, t.Resource); t.Mode == guard.Shared && t.Number < mark.Reader {
		return &guard.RefusedError{Reason: guard.ErrStale, Token: t, Mark: mark}
	}
	return s.sound.Claim(ctx, t)
}

// ignoresHolders admits a number twice.
type ignoresHolders struct{ sound }

func (s *ignoresHolders) Claim(ctx context.Context, t guard.Token) error {
	t.Holder = ""
	return s.sound.Claim(ctx, t)
}

func (s *ignoresHolders) Write(ctx context.Context, t guard.Token, value string) error {
	t.Holder = ""
	return s.sound.Write(ctx, t, value)
}

// ignoresIssuers takes every token for one of its own.
type ignoresIssuers struct{ sound }

func (s *ignoresIssuers) Claim(ctx context.Context, t guard.Token) error {
	t.Issuer = ""
	return s.sound.Claim(ctx, t)
}

// mute refuses with errors that are not refusals.
type mute struct{ sound }

func (s *mute) Claim(ctx context.Context, t guard.Token) error {
	if err := s.sound.Claim(ctx, t); err != nil {
		return errors.New("no")
	}
	return nil
}

// admitsAnything takes what is not a token.
type admitsAnything struct{ sound }

func (s *admitsAnything) Write(ctx context.Context, t guard.Token, value string) error {
	if valid := t.Validate() == nil; valid {
		return s.sound.Write(ctx, t, value)
	}
	s.mu.Lock()
	newest := fmt.Sprintf("resource %d", s.made)
	s.mu.Unlock()
	s.add(newest, value)
	return nil
}

// readopts adopts to an issuer of before.
type readopts struct{ sound }

func (s *readopts) Adopt(ctx context.Context, resource, issuer string) error {
	s.mu.Lock()
	delete(s.resource(resource).issuers, issuer)
	s.mu.Unlock()
	return s.sound.Adopt(ctx, resource, issuer)
}

// nobodyInside lets holders in and forgets them.
type nobodyInside struct{ sound }

type noEntry struct{}

func (noEntry) Exit() {}

func (s *nobodyInside) Enter(ctx context.Context, t guard.Token) (guard.Entry, error) {
	return noEntry{}, s.Claim(ctx, t)
}

// oneInside lets one holder in at a time, whoever it is.
type oneInside struct {
	sound
	place chan struct{} // holds one
}

type onlyEntry struct{ place chan struct{} }

func (e onlyEntry) Exit() { <-e.place }

func (s *oneInside) Enter(ctx context.Context, t guard.Token) (guard.Entry, error) {
	if err := s.Claim(ctx, t); err != nil {
		return nil, err
	}
	select {
	case s.place <- struct{}{}:
		return onlyEntry{s.place}, nil
	default:
		return nil, errors.New("somebody is inside")
	}
}
