package lockstest

import (
	"context"
	"errors"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

func testRelease(s *suite, b Backend) {
	s.run("twice", func(f *fixture) {
		a, other := f.open(), f.open()
		lease := f.must(a.Acquire)
		f.release(lease)
		select {
		case <-lease.Lost():
		default:
			f.Error("Lost of a released lease is open")
		}
		if err := lease.Err(); !errors.Is(err, locks.ErrReleased) || errors.Is(err, locks.ErrLost) {
			f.Errorf("Err of a released lease: %v", err)
		}
		next := f.must(other.Acquire)
		f.release(lease) // must not free what is somebody else's now
		f.entries(1)
		f.refused(a.TryAcquire)
		f.held(next)
		f.release(next)
	})

	s.run("next of the same locker survives", func(f *fixture) {
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

	s.run("with a ctx that has ended", func(f *fixture) {
		a := f.open()
		ctx, cancel := context.WithCancel(f.ctx)
		lease := f.must(a.Acquire)
		cancel()
		if err := lease.Release(ctx); err != nil {
			f.Fatalf("release: %v", err)
		}
		if n := f.service.Entries(f, f.resource); n != 0 {
			f.Fatalf("%d entries after the release", n)
		}
	})

	s.run("after it was lost", func(f *fixture) {
		a, other := f.open(), f.open()
		lease := f.must(a.Acquire)
		f.service.Break(f, f.resource, lease.Token())
		next := f.must(other.Acquire)
		f.rises(lease, next)
		if err := lease.Release(f.ctx); !errors.Is(err, locks.ErrLost) {
			f.Fatalf("release of a lost lease: %v", err)
		}
		if err := lease.Release(f.ctx); err != nil {
			f.Fatalf("second release: %v", err)
		}
		f.entries(1)
		f.held(next)
		f.release(next)
	})

	s.run("without a service", func(f *fixture) {
		a, link := f.openVia(b.TTL)
		lease := f.must(a.Acquire)
		link.Refuse(true)
		if err := lease.Release(f.ctx); err == nil {
			f.Fatal("release of a lock at a service that cannot be reached returned nil")
		}
		f.free(f.open()) // the lock ends by its time
	})

	s.run("reaches the service later", func(f *fixture) {
		a, link := f.openVia(long)
		lease := f.must(a.Acquire)
		link.Refuse(true)
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		if err := lease.Release(ctx); err == nil {
			f.Fatal("release of a lock at a service that cannot be reached returned nil")
		}
		link.Refuse(false)
		f.entries(0)
		f.free(a)
	})
}

// testLost has leases end without a release.
func testLost(s *suite, b Backend) {
	s.run("service hangs", func(f *fixture) {
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
			f.Fatalf("release of a lost lease: %v", err)
		}
		f.held(next)
		f.release(next)
		f.free(a) // on a session of its own, now that the service answers
	})

	s.run("service is gone", func(f *fixture) {
		a, link := f.openVia(b.TTL)
		lease := f.must(a.AcquireShared)
		link.Refuse(true)
		next := f.must(f.open().Acquire)
		f.over(lease)
		f.lost(lease)
		f.rises(lease, next)
		f.release(next)
	})

	s.run("broken while held", func(f *fixture) {
		a := f.open()
		lease, neighbour := f.must(a.Acquire), must(f, a, f.resource+" neighbour")
		f.service.Break(f, f.resource, lease.Token())
		f.lost(lease)
		f.held(neighbour)
		f.release(neighbour)
	})

	for _, way := range []string{"exclusive", "shared"} {
		s.run("broken while waiting, "+way, func(f *fixture) {
			a, other := f.open(), f.open()
			acquire := other.Acquire
			if way == "shared" {
				acquire = other.AcquireShared
			}
			held := f.must(a.Acquire)
			got := make(chan result, 1)
			f.start(f.ctx, "waiter", acquire, got)
			f.entries(2)
			f.service.Break(f, f.resource, guard.Token{})
			if r := f.await(got); !errors.Is(r.err, locks.ErrLost) {
				f.Fatalf("acquire = %v, %v; want ErrLost", r.lease, r.err)
			}
			f.held(held)
			f.entries(1)
			f.release(held)
			f.free(other)
		})
	}

	s.run("waiter's service hangs", func(f *fixture) {
		a, link := f.openVia(b.TTL)
		held := f.must(f.open().Acquire)
		got := make(chan result, 1)
		f.start(f.ctx, "waiter", a.Acquire, got)
		f.entries(2)
		link.Freeze()
		if r := f.await(got); !errors.Is(r.err, locks.ErrLost) {
			f.Fatalf("acquire = %v, %v; want ErrLost", r.lease, r.err)
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
