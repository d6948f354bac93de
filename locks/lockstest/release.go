package lockstest

import (
	"context"
	"errors"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

func testRelease(t *testing.T, b Backend) {
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, b)
		a, other := f.open(), f.open()
		lease := f.must(a.Acquire)
		f.release(lease)
		select {
		case <-lease.Lost():
		default:
			t.Error("Lost of a released lease is open")
		}
		if err := lease.Err(); !errors.Is(err, locks.ErrReleased) || errors.Is(err, locks.ErrLost) {
			t.Errorf("Err of a released lease: %v", err)
		}
		next := f.must(other.Acquire)
		f.release(lease) // must not free what is somebody else's now
		f.entries(1)
		f.refused(a.TryAcquire)
		f.held(next)
		f.release(next)
	})

	t.Run("next of the same locker survives", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, b)
		a := f.open()
		first := f.must(a.Acquire)
		f.release(first)
		second := f.must(a.Acquire)
		f.release(first)
		f.held(second)
		f.refused(a.TryAcquire)
		f.release(second)
		f.entries(0)
	})

	t.Run("with a ctx that has ended", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, b)
		a := f.open()
		ctx, cancel := context.WithCancel(f.ctx)
		lease := f.must(a.Acquire)
		cancel()
		if err := lease.Release(ctx); err != nil {
			t.Fatalf("release: %v", err)
		}
		if n := f.service.Entries(t, f.resource); n != 0 {
			t.Fatalf("%d entries after the release", n)
		}
	})

	t.Run("after it was lost", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, b)
		a, other := f.open(), f.open()
		lease := f.must(a.Acquire)
		f.service.Break(t, f.resource, lease.Token())
		next := f.must(other.Acquire)
		f.rises(lease, next)
		if err := lease.Release(f.ctx); !errors.Is(err, locks.ErrLost) {
			t.Fatalf("release of a lost lease: %v", err)
		}
		if err := lease.Release(f.ctx); err != nil {
			t.Fatalf("second release: %v", err)
		}
		f.entries(1)
		f.held(next)
		f.release(next)
	})

	t.Run("without a service", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, b)
		a, link := f.openVia(b.TTL)
		lease := f.must(a.Acquire)
		link.Refuse(true)
		if err := lease.Release(f.ctx); err == nil {
			t.Fatal("release of a lock at a service that cannot be reached returned nil")
		}
		f.free(f.open()) // the lock ends by its time
	})

	t.Run("reaches the service later", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, b)
		a, link := f.openVia(long)
		lease := f.must(a.Acquire)
		link.Refuse(true)
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		if err := lease.Release(ctx); err == nil {
			t.Fatal("release of a lock at a service that cannot be reached returned nil")
		}
		link.Refuse(false)
		f.entries(0)
		f.free(a)
	})
}

// testLost has leases end without a release.
func testLost(t *testing.T, b Backend) {
	t.Run("service hangs", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, b)
		a, link := f.openVia(b.TTL)
		lease := f.must(a.Acquire)
		f.held(lease)
		link.Freeze()
		deadline := lease.Deadline()
		f.lost(lease)
		f.near(deadline, lease)
		link.Thaw()
		next := f.must(f.open().Acquire)
		f.rises(lease, next)
		if err := lease.Release(f.ctx); !errors.Is(err, locks.ErrLost) {
			t.Fatalf("release of a lost lease: %v", err)
		}
		f.held(next)
		f.release(next)
		f.free(a) // on a session of its own, now that the service answers
	})

	t.Run("service is gone", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, b)
		a, link := f.openVia(b.TTL)
		lease := f.must(a.AcquireShared)
		link.Refuse(true)
		next := f.must(f.open().Acquire)
		f.lost(lease) // at once: its deadline was before that grant
		f.rises(lease, next)
		f.release(next)
	})

	t.Run("broken while held", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, b)
		a := f.open()
		lease, neighbour := f.must(a.Acquire), must(f, a, f.resource+" neighbour")
		f.service.Break(t, f.resource, lease.Token())
		f.lost(lease)
		f.held(neighbour)
		f.release(neighbour)
	})

	for _, way := range []string{"exclusive", "shared"} {
		t.Run("broken while waiting, "+way, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, b)
			a, other := f.open(), f.open()
			acquire := other.Acquire
			if way == "shared" {
				acquire = other.AcquireShared
			}
			held := f.must(a.Acquire)
			got := make(chan result, 1)
			f.start(f.ctx, "waiter", acquire, got)
			f.entries(2)
			f.service.Break(t, f.resource, guard.Token{})
			if r := f.await(got); !errors.Is(r.err, locks.ErrLost) {
				t.Fatalf("acquire = %v, %v; want ErrLost", r.lease, r.err)
			}
			f.held(held)
			f.entries(1)
			f.release(held)
			f.free(other)
		})
	}

	t.Run("waiter's service hangs", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, b)
		a, link := f.openVia(b.TTL)
		held := f.must(f.open().Acquire)
		got := make(chan result, 1)
		f.start(f.ctx, "waiter", a.Acquire, got)
		f.entries(2)
		link.Freeze()
		if r := f.await(got); !errors.Is(r.err, locks.ErrLost) {
			t.Fatalf("acquire = %v, %v; want ErrLost", r.lease, r.err)
		}
		link.Thaw()
		f.entries(1)
		f.release(held)
	})
}

func must(f *fixture, locker locks.Locker, resource string) locks.Lease {
	f.Helper()
	lease, err := locker.Acquire(f.ctx, resource)
	if err != nil {
		f.Fatalf("acquire %q: %v", resource, err)
	}
	return lease
}
