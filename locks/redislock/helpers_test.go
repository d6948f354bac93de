package redislock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

type acquireFunc func(ctx context.Context, resource string) (locks.Lease, error)

func testContext(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

func mustAcquire(tb testing.TB, acquire acquireFunc, resource string) locks.Lease {
	tb.Helper()
	lease, err := acquire(testContext(tb), resource)
	if err != nil {
		tb.Fatal(err)
	}
	return lease
}

func mustRelease(tb testing.TB, lease locks.Lease) {
	tb.Helper()
	if err := lease.Release(testContext(tb)); err != nil {
		tb.Fatal(err)
	}
}

// granted is what an acquisition in the background came to.
type granted struct {
	lease locks.Lease
	err   error
}

// background acquires in the background; the test waits for it at its end.
func background(ctx context.Context, tb testing.TB, acquire acquireFunc, resource string) <-chan granted {
	tb.Helper()
	got, done := make(chan granted, 1), make(chan struct{})
	tb.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		lease, err := acquire(ctx, resource)
		got <- granted{lease, err}
	}()
	return got
}

func wantGrant(tb testing.TB, got <-chan granted) locks.Lease {
	tb.Helper()
	g := <-got
	if g.err != nil {
		tb.Fatal(g.err)
	}
	return g.lease
}

func wantLost(tb testing.TB, lease locks.Lease) {
	tb.Helper()
	select {
	case <-lease.Lost():
	case <-time.After(patience):
		tb.Fatal("Lost is not closed")
	}
	if err := lease.Err(); !errors.Is(err, locks.ErrLost) {
		tb.Fatalf("Err of a lost lease: %v", err)
	}
}

func wantHeld(tb testing.TB, lease locks.Lease) {
	tb.Helper()
	if err := lease.Err(); err != nil {
		tb.Fatalf("Err of a held lease: %v", err)
	}
}

// wantRising checks that the numbers rise.
func wantRising(tb testing.TB, leases ...locks.Lease) {
	tb.Helper()
	for i := 1; i < len(leases); i++ {
		if a, b := leases[i-1].Token(), leases[i].Token(); b.Number <= a.Number {
			tb.Errorf("%v was granted after %v", b, a)
		}
	}
}

func (s *service) awaitEntries(tb testing.TB, resource string, n int) {
	tb.Helper()
	await(tb, func() bool { return s.Entries(tb, resource) == n })
}

// await polls until cond holds.
func await(tb testing.TB, cond func() bool) {
	tb.Helper()
	deadline := time.NewTimer(patience)
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

// counter counts the requests that pass a link.
type counter struct {
	*testenv.Link
	seen int
}

// since returns the requests since the last call that make or keep a lock.
func (c *counter) since() []string {
	paths := c.Paths()
	fresh := slices.DeleteFunc(slices.Clone(paths[c.seen:]), func(path string) bool { return !isScript(path) })
	c.seen = len(paths)
	return fresh
}

func (c *counter) want(tb testing.TB, what string, paths ...string) {
	tb.Helper()
	if got := c.since(); !slices.Equal(got, paths) {
		tb.Errorf("%s: requests %q, want %q", what, got, paths)
	}
}
