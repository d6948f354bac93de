package lockstest

import (
	"context"
	"errors"

	"github.com/fenceproxy/fenceproxy/locks"
)

// testDo runs locks.Do on the real thing.
func testDo(s *suite, _ Backend) {
	s.run("lost half-way", func(f *fixture) {
		a, other := f.open(), f.open()
		var first, second locks.Lease
		if err := locks.Do(f.ctx, a, f.resource, func(_ context.Context, lease locks.Lease) error {
			first = lease
			f.check(lease)
			f.refused(other.TryAcquireShared)
			return nil
		}); err != nil {
			f.Fatal(err)
		}
		f.entries(0)
		err := locks.DoShared(f.ctx, other, f.resource, func(ctx context.Context, lease locks.Lease) error {
			second = lease
			f.service.Break(f, f.resource, lease.Token())
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, locks.ErrLost) {
			f.Fatalf("Do of a lock that was lost: %v", err)
		}
		f.rises(first, second)
		f.entries(0)
	})
}
