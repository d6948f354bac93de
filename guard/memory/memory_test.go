package memory_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/guardtest"
	"github.com/fenceproxy/fenceproxy/guard/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lists are lists of values, which are only appended to inside the guard.
type lists struct {
	*memory.Guard
	made   atomic.Int64
	values sync.Map // resource: *list
}

type list struct {
	mu     sync.Mutex // many of the current token append at once
	values []string
}

func (l *lists) list(resource string) *list {
	v, _ := l.values.LoadOrStore(resource, &list{})
	return v.(*list)
}

func (l *lists) NewResource(context.Context) (string, error) {
	return fmt.Sprintf("list/%d", l.made.Add(1)), nil
}

func (l *lists) Claim(ctx context.Context, t guard.Token) error {
	entry, err := l.Enter(ctx, t)
	if err == nil {
		entry.Exit()
	}
	return err
}

func (l *lists) Write(ctx context.Context, t guard.Token, value string) error {
	finish, err := l.Open(ctx, t, value)
	if err != nil {
		return err
	}
	return finish(ctx)
}

func (l *lists) Open(ctx context.Context, t guard.Token, value string) (func(context.Context) error, error) {
	if err := t.MayWrite(); err != nil {
		return nil, err
	}
	entry, err := l.Enter(ctx, t)
	if err != nil {
		return nil, err
	}
	return func(context.Context) error {
		defer entry.Exit()
		written := l.list(t.Resource)
		written.mu.Lock()
		defer written.mu.Unlock()
		written.values = append(written.values, value)
		return nil
	}, nil
}

func (l *lists) Written(_ context.Context, resource string) ([]string, error) {
	written := l.list(resource)
	written.mu.Lock()
	defer written.mu.Unlock()
	return append([]string(nil), written.values...), nil
}

func (l *lists) Mark(_ context.Context, resource string) (guard.Mark, error) {
	return l.Guard.Mark(resource), nil
}

func TestGuardConforms(t *testing.T) {
	t.Parallel()
	guardtest.Exercise(t, &lists{Guard: newGuard(t, memory.Config{})})
}
