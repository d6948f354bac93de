package lockstest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fenceproxy/fenceproxy/locks"
)

var errWhy = errors.New("why the ctx ended")

// testCancel ends the ctx of an acquisition at every point at which it waits.
// Then there is a lease or an error, and with an error nothing is left.
func testCancel(s *suite, b Backend) {
	s.run("before", func(f *fixture) {
		a := f.open()
		ctx, cancel := context.WithCancelCause(f.ctx)
		cancel(errWhy)
		for _, acquire := range []acquireFunc{a.Acquire, a.AcquireShared, a.TryAcquire, a.TryAcquireShared} {
			if lease, err := acquire(ctx, f.resource); lease != nil || !errors.Is(err, context.Canceled) || !errors.Is(err, errWhy) {
				f.Errorf("acquire = %v, %v; want the ctx's error and its cause", lease, err)
			}
		}
		f.free(a)
	})

	s.run("waiting", func(f *fixture) {
		a := f.open()
		held := f.must(a.Acquire)
		for _, acquire := range []acquireFunc{a.Acquire, a.AcquireShared} {
			ctx, cancel := context.WithTimeout(f.ctx, 50*time.Millisecond)
			if lease, err := acquire(ctx, f.resource); lease != nil || !errors.Is(err, context.DeadlineExceeded) {
				f.Errorf("acquire = %v, %v; want the ctx's error", lease, err)
			}
			cancel()
			f.entries(1)
		}
		f.held(held)
		f.release(held)
		f.free(a)
	})

	s.run("anywhere, first acquisition", func(f *fixture) {
		near := f.open()
		const delay = 3 * time.Millisecond
		for i := range 12 {
			// A locker that has no session, and perhaps no connection.
			far, link := f.openVia(long)
			link.Delay(delay)
			acquire := []acquireFunc{far.Acquire, far.AcquireShared, far.TryAcquire}[i%3]
			f.cancelled(acquire, near, false, rand.N(20*delay))
		}
		f.free(near)
	})

	for _, way := range []struct {
		name      string
		contended bool
		acquire   func(locks.Locker) acquireFunc
	}{
		{"anywhere, Acquire", false, func(l locks.Locker) acquireFunc { return l.Acquire }},
		{"anywhere, TryAcquireShared", false, func(l locks.Locker) acquireFunc { return l.TryAcquireShared }},
		{"anywhere, Acquire, contended", true, func(l locks.Locker) acquireFunc { return l.Acquire }},
		{"anywhere, AcquireShared, contended", true, func(l locks.Locker) acquireFunc { return l.AcquireShared }},
	} {
		s.run(way.name, func(f *fixture) {
			far, link := f.openVia(long)
			near := f.open()
			f.release(f.must(far.Acquire)) // opens what the first acquisition has to
			// On a slow link there is time to cancel between any two messages.
			const delay = 3 * time.Millisecond
			link.Delay(delay)
			var leases, errs int
			for range 40 {
				if f.cancelled(way.acquire(far), near, way.contended, rand.N(10*delay)) {
					leases++
				} else {
					errs++
				}
			}
			f.Logf("%d leases, %d errors", leases, errs)
			if errs == 0 {
				f.Error("no acquisition was cancelled")
			}
			link.Delay(0)
			f.free(near)
		})
	}
}

// cancelled acquires with a ctx that ends after d, and reports whether it got a
// lease all the same. If contended, somebody else holds the lock for half of
// that time.
func (f *fixture) cancelled(acquire acquireFunc, other locks.Locker, contended bool, d time.Duration) bool {
	f.Helper()
	var held locks.Lease
	if contended {
		held = f.must(other.Acquire)
	}
	ctx, cancel := context.WithTimeout(f.ctx, d)
	defer cancel()
	got := make(chan result, 1)
	f.start(ctx, "cancelled", acquire, got)
	if contended {
		half := time.NewTimer(d / 2)
		defer half.Stop()
		<-half.C
		f.release(held)
	}
	r := f.await(got)
	if r.err != nil {
		if !errors.Is(r.err, context.DeadlineExceeded) {
			f.Fatalf("acquire: %v", r.err)
		}
		f.entries(0)
		return false
	}
	f.check(r.lease)
	f.entries(1)
	f.release(r.lease)
	return true
}
