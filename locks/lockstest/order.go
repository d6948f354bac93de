package lockstest

import (
	"errors"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

// testOrder checks that numbers rise in the order of the grants of each pair
// that excludes each other, whatever ends the earlier one.
func testOrder(s *suite, b Backend) {
	s.run("over releases and breaks", func(f *fixture) {
		lockers := []locks.Locker{f.open(), f.open()}
		var mark guard.Mark
		var before locks.Lease
		for i := range 24 {
			locker := lockers[i%2]
			acquire := []acquireFunc{locker.Acquire, locker.AcquireShared, locker.TryAcquire}[i%3]
			lease := f.must(acquire)
			var err error
			if mark, err = guard.Admit(mark, lease.Token()); err != nil {
				f.Fatalf("current holder was refused: %v", err)
			}
			if before != nil {
				f.rises(before, lease)
				if _, err := guard.Admit(mark, before.Token()); err == nil {
					f.Fatalf("%v is still admitted after %v", before.Token(), lease.Token())
				}
			}
			before = lease
			if i%4 == 3 {
				f.service.Break(f, f.resource, lease.Token())
			} else {
				f.release(lease)
			}
		}
	})

	s.run("over a crash", func(f *fixture) {
		crashed, link := f.openVia(b.TTL)
		first := f.must(crashed.Acquire)
		got := make(chan result, 2)
		near := f.open()
		f.start(f.ctx, "r", near.AcquireShared, got)
		f.entries(2)
		f.start(f.ctx, "w", near.Acquire, got)
		f.entries(3)
		link.Refuse(true)
		r := f.granted(got)
		f.over(first)
		f.lost(first)
		f.rises(first, r.lease)
		f.release(r.lease)
		w := f.granted(got)
		if r.name != "r" || w.name != "w" {
			f.Fatalf("granted %s before %s", r.name, w.name)
		}
		f.rises(r.lease, w.lease)
		f.release(w.lease)
	})

	s.run("over a restart of the service", func(f *fixture) {
		f.service = b.Private(f)
		a, other := f.open(), f.open()
		first := f.must(a.Acquire)
		got := make(chan result, 1)
		f.start(f.ctx, "waiter", other.Acquire, got)
		f.entries(2)
		f.service.Restart(f)
		f.nothing(got)
		if err := first.Release(f.ctx); err != nil && !errors.Is(err, locks.ErrLost) {
			f.Logf("release: %v", err)
		}
		second := f.granted(got)
		f.rises(first, second.lease)
		f.service.Restart(f)
		f.release(second.lease)
		third := f.must(a.AcquireShared)
		f.rises(second.lease, third)
		f.release(third)
		f.entries(0)
	})
}
