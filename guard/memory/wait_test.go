package memory_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/memory"
)

func reader(resource string, number int64) guard.Token {
	t := writer(resource, number)
	t.Mode = guard.Shared
	return t
}

func enter(t *testing.T, g *memory.Guard, token guard.Token) guard.Entry {
	t.Helper()
	entry, err := g.Enter(t.Context(), token)
	if err != nil {
		t.Fatalf("enter %v: %v", token, err)
	}
	return entry
}

type result struct {
	entry guard.Entry
	err   error
}

// entering starts an Enter that raises the mark and then has to wait.
func entering(t *testing.T, g *memory.Guard, token guard.Token) <-chan result {
	t.Helper()
	done := make(chan result, 1)
	go func() {
		entry, err := g.Enter(t.Context(), token)
		done <- result{entry, err}
	}()
	raised := func() bool {
		m := g.Mark(token.Resource)
		return token.Mode == guard.Exclusive && m.Writer == token.Number || token.Mode == guard.Shared && m.Reader >= token.Number
	}
	for deadline := time.Now().Add(time.Minute); !raised(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%v did not raise the mark while it waits", token)
		}
	}
	return done
}

func expectWaiting(t *testing.T, done <-chan result) {
	t.Helper()
	select {
	case r := <-done:
		t.Fatalf("entered while an older token was inside: %v", r.err)
	default:
	}
}

// gone returns a context that has ended: an Enter with it says whether it
// would wait.
func gone(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestMarkIsRaisedWhileTheClaimWaits(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memory.Config{})
	first, second := enter(t, g, writer("orders", 33)), enter(t, g, writer("orders", 33))
	done := entering(t, g, writer("orders", 34))
	if _, err := g.Enter(t.Context(), writer("orders", 33)); !errors.Is(err, guard.ErrStale) {
		t.Errorf("enter 33 while 34 waits: %v, want stale", err)
	}
	if _, err := g.Enter(gone(t), writer("orders", 34)); !errors.Is(err, context.Canceled) {
		t.Errorf("enter 34 beside the one that waits: %v, want that it would wait too", err)
	}
	if other := enter(t, g, writer("stock", 1)); other != nil {
		other.Exit()
	}
	first.Exit()
	expectWaiting(t, done)
	second.Exit()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	r.entry.Exit()
}

func TestClaimThatGivesUp(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memory.Config{})
	first, second := enter(t, g, writer("orders", 33)), enter(t, g, writer("orders", 33))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	entry, err := g.Enter(ctx, writer("orders", 34))
	if entry != nil || !errors.Is(err, context.DeadlineExceeded) || guard.OutcomeOf(err) != guard.NotApplied {
		t.Errorf("got %v, %v (%v)", entry, err, guard.OutcomeOf(err))
	}
	if want := `enter "orders" as x 34: 2 of older tokens still inside`; !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not say %q", err, want)
	}
	if _, err := g.Enter(t.Context(), writer("orders", 33)); !errors.Is(err, guard.ErrStale) {
		t.Errorf("enter 33 after that: %v, want stale", err)
	}
	first.Exit()
	if _, err := g.Enter(gone(t), writer("orders", 34)); err == nil || !strings.Contains(err.Error(), ": 1 of older") {
		t.Errorf("enter 34 again: %v, want that one is still inside", err)
	}
	second.Exit()
	enter(t, g, writer("orders", 34)).Exit()
}

// onDone is a context that has ended and does something when it is asked.
type onDone struct {
	context.Context
	do func()
}

func (c onDone) Done() <-chan struct{} {
	c.do()
	return c.Context.Done()
}

// What an Enter that gives up says is true at that moment, not when it began to
// wait. Both cases of its select are ready, so it is asked often.
func TestGivingUpLooksAgain(t *testing.T) {
	t.Parallel()
	for range 64 {
		g := newGuard(t, memory.Config{})
		first, second := enter(t, g, writer("orders", 33)), enter(t, g, writer("orders", 33))
		_, err := g.Enter(onDone{gone(t), first.Exit}, writer("orders", 34))
		if err == nil || !strings.Contains(err.Error(), ": 1 of older") {
			t.Fatalf("one has left meanwhile: %v", err)
		}
		newer := func() { _, _ = g.Enter(gone(t), writer("orders", 36)) }
		if _, err = g.Enter(onDone{gone(t), newer}, writer("orders", 35)); !errors.Is(err, guard.ErrStale) {
			t.Fatalf("a newer claim came meanwhile: %v, want stale", err)
		}
		leave := sync.OnceFunc(second.Exit)
		entry, err := g.Enter(onDone{gone(t), leave}, writer("orders", 37))
		if err != nil {
			t.Fatalf("the last one has left meanwhile: %v", err)
		}
		entry.Exit()
	}
}

func TestWaiterIsRefusedByANewerClaim(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memory.Config{})
	inside := enter(t, g, writer("orders", 33))
	older := entering(t, g, writer("orders", 34))
	newer := entering(t, g, writer("orders", 35))
	if r := <-older; !errors.Is(r.err, guard.ErrStale) {
		t.Errorf("34, while 33 is inside and 35 waits: %v, want stale", r.err)
	}
	expectWaiting(t, newer)
	inside.Exit()
	r := <-newer
	if r.err != nil {
		t.Fatal(r.err)
	}
	r.entry.Exit()
}

// A further reader's claim waits for nobody whom it ends, as it ends nobody;
// the writer whom the reader before it ended must have left all the same (I9).
func TestReaderWaitsForOlderWriterOnly(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memory.Config{})
	inside := enter(t, g, writer("orders", 33))
	first := entering(t, g, reader("orders", 34))
	further := entering(t, g, reader("orders", 36))
	expectWaiting(t, first)
	expectWaiting(t, further)
	inside.Exit()
	for _, done := range []<-chan result{first, further} {
		if r := <-done; r.err != nil {
			t.Fatal(r.err)
		}
	}
	// 34 and 36 are inside. A writer comes and goes without getting in.
	if _, err := g.Enter(gone(t), writer("orders", 40)); err == nil || !strings.Contains(err.Error(), "2 of older") {
		t.Errorf("writer beside two readers: %v, want that it waits for both", err)
	}
	if entry, err := g.Enter(gone(t), reader("orders", 41)); err != nil {
		t.Errorf("reader beside readers whom a writer has ended: %v, want that it waits for no reader", err)
	} else {
		entry.Exit()
	}
}

func TestReadersComeInAnyOrder(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memory.Config{})
	for _, number := range []int64{40, 35, 41, 38} {
		if _, err := g.Enter(gone(t), reader("orders", number)); err != nil {
			t.Errorf("reader %d: %v", number, err)
		}
	}
	if _, err := g.Enter(gone(t), writer("orders", 41)); !errors.Is(err, guard.ErrDuplicate) {
		t.Errorf("writer 41: %v", err)
	}
}

// Nobody is ever inside together with somebody of another token, and all of
// one token may be.
func TestNoTwoTokensInside(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memory.Config{})
	var (
		next, together, entries atomic.Int64
		inside                  sync.Map // number: count
		all                     sync.WaitGroup
	)
	deadline := time.Now().Add(300 * time.Millisecond)
	for range 8 {
		all.Go(func() {
			for time.Now().Before(deadline) {
				token := writer("orders", next.Add(1))
				for range 20 {
					entry, err := g.Enter(t.Context(), token)
					if err != nil {
						if !errors.Is(err, guard.ErrStale) {
							t.Error(err)
						}
						break
					}
					inside.Store(token.Number, true)
					inside.Range(func(number, _ any) bool {
						if number != token.Number {
							together.Add(1)
						}
						return true
					})
					inside.Delete(token.Number)
					entries.Add(1)
					entry.Exit()
				}
			}
		})
	}
	all.Wait()
	if together.Load() != 0 || entries.Load() == 0 {
		t.Errorf("met %d of other tokens in %d entries", together.Load(), entries.Load())
	}
}
