package lockstest

import (
	"errors"
	"fmt"

	"github.com/fenceproxy/fenceproxy/locks"
)

// testReplies loses the reply to each request of a lock's life in turn. Then no
// lock is held by nobody, and none by two (I8).
func testReplies(s *suite, b Backend) {
	const requests = 6 // more than a lock's life has: the last rounds lose none
	for n := 1; n <= requests; n++ {
		for _, shared := range []bool{false, true} {
			mode := map[bool]string{false: "exclusive", true: "shared"}[shared]
			s.run(fmt.Sprintf("request %d of an acquisition, %s", n, mode), func(f *fixture) {
				far, link := f.openVia(long)
				f.release(f.must(far.Acquire))
				link.DropReplyTo(b.Counts, n)
				f.lifeOf(far, f.open(), shared)
			})
			s.run(fmt.Sprintf("request %d of a contended acquisition, %s", n, mode), func(f *fixture) {
				far, link := f.openVia(long)
				f.release(f.must(far.Acquire))
				f.contendedLife(far, f.open(), shared, func() { link.DropReplyTo(b.Counts, n) })
			})
		}
		s.run(fmt.Sprintf("request %d of a try", n), func(f *fixture) {
			far, link := f.openVia(long)
			f.release(f.must(far.Acquire))
			link.DropReplyTo(b.Counts, n)
			lease, err := far.TryAcquire(f.ctx, f.resource)
			if errors.Is(err, locks.ErrHeld) {
				f.Fatal("a try took its own lock for somebody else's")
			}
			f.afterLoss(lease, err, far, f.open())
		})
	}
	// Those that open a session, look at the service and make what locks need
	// there.
	const first = 15
	for n := 1; n <= first; n++ {
		s.run(fmt.Sprintf("request %d of a first acquisition", n), func(f *fixture) {
			far, link := f.openVia(long)
			link.DropReplyTo(anything, n)
			f.lifeOf(far, f.open(), false)
		})
		s.run(fmt.Sprintf("request %d of a first acquisition, contended", n), func(f *fixture) {
			far, link := f.openVia(long)
			f.contendedLife(far, f.open(), n%2 == 0, func() { link.DropReplyTo(anything, n) })
		})
	}
}

func anything(string) bool { return true }

func (f *fixture) lifeOf(far, near locks.Locker, shared bool) {
	f.Helper()
	acquire := far.Acquire
	if shared {
		acquire = far.AcquireShared
	}
	lease, err := acquire(f.ctx, f.resource)
	f.afterLoss(lease, err, far, near)
}

// afterLoss checks an acquisition whose reply may have been lost, and the
// release after it.
func (f *fixture) afterLoss(lease locks.Lease, err error, far, near locks.Locker) {
	f.Helper()
	if err == nil {
		f.check(lease)
		f.entries(1)
		f.refused(near.TryAcquire)
		f.held(lease)
		// The reply to the release may be lost as well; the lock is not.
		if err := lease.Release(f.ctx); err != nil {
			f.Logf("release: %v", err)
		}
	} else {
		f.Logf("acquire: %v", err)
	}
	f.entries(0)
	f.free(near)
	f.free(far)
}

// contendedLife has far wait for a lock of near, after a call of arm.
func (f *fixture) contendedLife(far, near locks.Locker, shared bool, arm func()) {
	f.Helper()
	held := f.must(near.Acquire)
	acquire := far.Acquire
	if shared {
		acquire = far.AcquireShared
	}
	arm()
	got := make(chan result, 1)
	f.start(f.ctx, "waiter", acquire, got)
	f.entries(2)
	f.nothing(got)
	f.release(held)
	r := f.await(got)
	if r.err == nil {
		f.rises(held, r.lease)
	}
	f.afterLoss(r.lease, r.err, far, near)
}
