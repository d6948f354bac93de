// Package locktest is what the tests of locks in the various services share.
package locktest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

// Patience is how long a test waits for what must happen.
const Patience = 60 * time.Second

// AcquireFunc is a method of a Locker.
type AcquireFunc func(ctx context.Context, resource string) (locks.Lease, error)

// Context ends after Patience.
func Context(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	tb.Cleanup(cancel)
	return ctx
}

// MustAcquire acquires.
func MustAcquire(tb testing.TB, acquire AcquireFunc, resource string) locks.Lease {
	tb.Helper()
	lease, err := acquire(Context(tb), resource)
	if err != nil {
		tb.Fatal(err)
	}
	return lease
}

// MustRelease releases.
func MustRelease(tb testing.TB, lease locks.Lease) {
	tb.Helper()
	if err := lease.Release(Context(tb)); err != nil {
		tb.Fatal(err)
	}
}

// Granted is what an acquisition in the background came to.
type Granted struct {
	Lease locks.Lease
	Err   error
}

// Background acquires in the background; the test waits for it at its end.
func Background(ctx context.Context, tb testing.TB, acquire AcquireFunc, resource string) <-chan Granted {
	tb.Helper()
	got, done := make(chan Granted, 1), make(chan struct{})
	tb.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		lease, err := acquire(ctx, resource)
		got <- Granted{lease, err}
	}()
	return got
}

// WantGrant waits for an acquisition in the background.
func WantGrant(tb testing.TB, got <-chan Granted) locks.Lease {
	tb.Helper()
	g := <-got
	if g.Err != nil {
		tb.Fatal(g.Err)
	}
	return g.Lease
}

// WantLost waits until lease is lost.
func WantLost(tb testing.TB, lease locks.Lease) {
	tb.Helper()
	select {
	case <-lease.Lost():
	case <-time.After(Patience):
		tb.Fatal("Lost is not closed")
	}
	if err := lease.Err(); !errors.Is(err, locks.ErrLost) {
		tb.Fatalf("Err of a lost lease: %v", err)
	}
}

// WantHeld checks that lease is held.
func WantHeld(tb testing.TB, lease locks.Lease) {
	tb.Helper()
	if err := lease.Err(); err != nil {
		tb.Fatalf("Err of a held lease: %v", err)
	}
}

// WantRising checks that the numbers rise, and that the issuer is one.
func WantRising(tb testing.TB, leases ...locks.Lease) {
	tb.Helper()
	for i := 1; i < len(leases); i++ {
		if a, b := leases[i-1].Token(), leases[i].Token(); b.Number <= a.Number || a.Issuer != b.Issuer {
			tb.Errorf("%v was granted after %v", b, a)
		}
	}
}

// Await polls until cond holds.
func Await(tb testing.TB, cond func() bool) {
	tb.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			tb.Fatal("what must happen did not")
		}
	}
}

// Counter counts the requests for locks that pass a link.
type Counter struct {
	*testenv.Link
	// Counts tells them from others.
	Counts func(path string) bool

	seen int
}

// Since returns the requests for locks since the last call.
func (c *Counter) Since() []string {
	paths := c.Paths()
	fresh := slices.DeleteFunc(slices.Clone(paths[c.seen:]), func(path string) bool { return !c.Counts(path) })
	c.seen = len(paths)
	return fresh
}

// Want checks which requests there were since the last call.
func (c *Counter) Want(tb testing.TB, what string, paths ...string) {
	tb.Helper()
	if got := c.Since(); !slices.Equal(got, paths) {
		tb.Errorf("%s: requests %q, want %q", what, got, paths)
	}
}
