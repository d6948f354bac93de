package guardtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

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
