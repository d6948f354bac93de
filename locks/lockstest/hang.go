package lockstest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/locks"
)

// limit is above what any call may take of its own at a service that hangs.
const limit = 10 * time.Second

// within calls f and checks that it takes no longer than limit.
func (f *fixture) within(what string, call func()) {
	f.Helper()
	began := time.Now()
	call()
	if took := time.Since(began); took > limit {
		f.Errorf("%s took %v at a service that hangs", what, took)
	}
}

// testHang has the service not answer, with its connections open. Nothing waits
// for it longer than it was told to, and when it answers again nothing is left.
func testHang(s *suite, _ Backend) {
	for _, mode := range []string{"exclusive", "shared"} {
		s.run("release, "+mode, func(f *fixture) {
			a, link := f.openVia(long)
			acquire := a.Acquire
			if mode == "shared" {
				acquire = a.AcquireShared
			}
			lease := f.must(acquire)
			link.Freeze()
			f.within("release", func() {
				if err := lease.Release(f.ctx); err == nil {
					f.Error("release that nobody answered returned nil")
				}
			})
			if err := lease.Err(); !errors.Is(err, locks.ErrReleased) {
				f.Errorf("Err of a released lease: %v", err)
			}
			link.Thaw()
			f.entries(0) // the request was on its way, or is sent again
			f.free(a)
		})
	}

	s.run("waiter gives up", func(f *fixture) {
		a, link := f.openVia(long)
		held := f.must(f.open().Acquire)
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		got := make(chan result, 1)
		f.start(ctx, "waiter", a.Acquire, got)
		f.entries(2)
		link.Freeze()
		cancel()
		f.within("giving up", func() {
			if r := f.await(got); !errors.Is(r.err, context.Canceled) {
				f.Errorf("acquire = %v, %v; want the ctx's error", r.lease, r.err)
			}
		})
		link.Thaw()
		f.entries(1)
		f.held(held)
		f.release(held)
	})

	for _, way := range []string{"first", "further"} {
		s.run(way+" acquisition", func(f *fixture) {
			a, link := f.openVia(long)
			if way == "further" {
				f.release(f.must(a.Acquire))
			}
			link.Freeze()
			for _, acquire := range []acquireFunc{a.Acquire, a.AcquireShared, a.TryAcquire, a.TryAcquireShared} {
				ctx, cancel := context.WithTimeout(f.ctx, 50*time.Millisecond)
				f.within("acquire", func() {
					if lease, err := acquire(ctx, f.resource); lease != nil || !errors.Is(err, context.DeadlineExceeded) {
						f.Errorf("acquire = %v, %v; want the ctx's error", lease, err)
					}
				})
				cancel()
			}
			link.Thaw()
			f.free(f.open())
			f.free(a)
		})
	}
}

// testRenewals loses the reply to each of the requests that a lease costs while
// it is held. It lives on; or else it is lost, and nobody holds the lock.
func testRenewals(s *suite, b Backend) {
	for n := 1; n <= 4; n++ {
		s.run(fmt.Sprintf("reply %d is lost", n), func(f *fixture) {
			// Long enough for a reply to be lost and the next to be in time.
			a, link := f.openVia(2 * b.TTL)
			lease := f.must(a.Acquire)
			link.DropReplyTo(anything, n)
			end := lease.Deadline().Add(b.TTL)
			f.eventually(func() bool { return lease.Err() != nil || lease.Deadline().After(end) }, "lease is neither renewed nor lost")
			if err := lease.Err(); err != nil {
				f.Fatalf("a lost reply cost the lease: %v", err)
			}
			f.held(lease)
			f.entries(1)
			f.refused(f.open().TryAcquireShared)
			if err := lease.Release(f.ctx); err != nil {
				f.Logf("release: %v", err)
			}
			f.free(f.open())
		})
	}

	s.run("connections break all the time", func(f *fixture) {
		a, link := f.openVia(2 * b.TTL)
		lease := f.must(a.Acquire)
		end := lease.Deadline().Add(b.TTL)
		next := time.Now()
		f.eventually(func() bool {
			if now := time.Now(); now.After(next) {
				link.Cut()
				next = now.Add(b.TTL / 4)
			}
			return lease.Err() != nil || lease.Deadline().After(end)
		}, "lease is neither renewed nor lost")
		f.held(lease)
		f.entries(1)
		f.release(lease)
		f.entries(0)
	})
}
