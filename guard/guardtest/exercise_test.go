package guardtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
)

// sound is a target that is right, and plain enough to see that it is: one
// lock around the decision, the mark and the write.
type sound struct {
	mu        sync.Mutex
	resources map[string]*soundResource
	made      int
}

type soundResource struct {
	mark    guard.Mark
	issuers map[string]bool
	written []string
}

func (s *sound) NewResource(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	return fmt.Sprintf("resource %d", s.made), nil
}

func (s *sound) resource(name string) *soundResource {
	if s.resources == nil {
		s.resources = map[string]*soundResource{}
	}
	if s.resources[name] == nil {
		s.resources[name] = &soundResource{issuers: map[string]bool{}}
	}
	return s.resources[name]
}

func (s *sound) Claim(_ context.Context, t guard.Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resource(t.Resource)
	mark, err := guard.Admit(r.mark, t)
	if err == nil {
		r.mark, r.issuers[t.Issuer] = mark, true
	}
	return err
}

func (s *sound) Check(_ context.Context, t guard.Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return guard.Claimed(s.resource(t.Resource).mark, t)
}

func (s *sound) Write(ctx context.Context, t guard.Token, value string) error {
	finish, err := s.Open(ctx, t, value)
	if err != nil {
		return err
	}
	return finish(ctx)
}

func (s *sound) Open(_ context.Context, t guard.Token, value string) (func(context.Context) error, error) {
	if err := t.MayWrite(); err != nil {
		return nil, err
	}
	return func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		r := s.resource(t.Resource)
		if err := guard.Claimed(r.mark, t); err != nil {
			return err
		}
		r.written = append(r.written, value)
		return nil
	}, nil
}

func (s *sound) Written(_ context.Context, resource string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.resource(resource).written...), nil
}

func (s *sound) Mark(_ context.Context, resource string) (guard.Mark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resource(resource).mark, nil
}

func (s *sound) Adopt(_ context.Context, resource, issuer string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resource(resource)
	if err := guard.ValidateID(issuer); err != nil {
		return err
	}
	if r.issuers[issuer] {
		return errors.New("issuer was used before")
	}
	r.issuers[issuer] = true
	r.mark = guard.Mark{Issuer: issuer, Generation: r.mark.Generation + 1}
	return nil
}

func TestExerciseAdmitsASoundTarget(t *testing.T) {
	t.Parallel()
	Exercise(t, &sound{})
}

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
	time.Sleep(time.Millisecond) // long enough to be met
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
	if t.Validate() != nil {
		s.mu.Lock()
		name := fmt.Sprintf("resource %d", s.made)
		s.mu.Unlock()
		s.add(name, value)
		return nil
	}
	return s.sound.Write(ctx, t, value)
}

// readopts adopts to an issuer of before.
type readopts struct{ sound }

func (s *readopts) Adopt(ctx context.Context, resource, issuer string) error {
	s.mu.Lock()
	delete(s.resource(resource).issuers, issuer)
	s.mu.Unlock()
	return s.sound.Adopt(ctx, resource, issuer)
}

func TestExerciseCatches(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		target Target
		caught []string // scenarios that must fail, by prefix
	}{
		"a target without the check": {&withoutCheck{}, []string{
			"superseded tokens are refused", "readers never write", "claims race", "one number handed out twice",
			"tokens superseded under load", "rule/write/writer after writer, lower", "rule/write/malformed, zero token",
		}},
		"check, then write":            {newCheckThenWrite(), []string{"tokens superseded under load", "open write is superseded"}},
		"one writer at a time":         {&oneAtATime{}, []string{"writers of the current token run together", "tokens superseded under load"}},
		"a lie about what is there":    {&liar{}, []string{"tokens superseded under load", "writes given up half-way"}},
		"an acknowledged write lost":   {&forgetful{}, []string{"tokens superseded under load"}},
		"a mark that goes down":        {&lowersItsMark{}, []string{"superseded tokens are refused", "rule/claim/writer after writer, lower"}},
		"readers who write":            {&letsReadersWrite{}, []string{"readers never write", "rule/write/reader again"}},
		"readers in order":             {&ordersReaders{}, []string{"readers never write", "rule/claim/reader after reader, lower"}},
		"holders not looked at":        {&ignoresHolders{}, []string{"one number handed out twice", "superseded tokens are refused", "rule/claim/writer twice"}},
		"issuers not looked at":        {&ignoresIssuers{}, []string{"rule/claim/foreign, higher", "rule/claim/foreign, no issuer"}},
		"refusals that are none":       {&mute{}, []string{"superseded tokens are refused", "rule/claim/malformed, zero token"}},
		"anything taken for a token":   {&admitsAnything{}, []string{"rule/write/malformed, zero token", "rule/write/malformed, number 0"}},
		"an issuer that may come back": {&readopts{}, []string{"rule/adopt/back to its first issuer", "rule/adopt/to its own issuer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := map[string]error{}
			for _, s := range scenarios(row.target) {
				if err := s.run(t.Context()); err != nil {
					failed[s.name] = err
				}
			}
			for _, want := range row.caught {
				if !hasPrefix(failed, want) {
					t.Errorf("passes %q", want)
				}
			}
			if t.Failed() {
				for name, err := range failed {
					t.Logf("%s: %v", name, err)
				}
			}
		})
	}
}

func hasPrefix(failed map[string]error, prefix string) bool {
	for name := range failed {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
