package locks

import (
	"context"
	"errors"

	"github.com/fenceproxy/fenceproxy/guard"
)

// FloorLocker is a Locker that can be told what its numbers have to be above.
// One whose numbers rise by themselves whatever happens to the lock service is
// none.
type FloorLocker interface {
	Locker
	// AcquireAbove is Acquire of a lease whose number is above floor.
	AcquireAbove(ctx context.Context, resource string, floor int64) (Lease, error)
	// AcquireSharedAbove is AcquireShared of a lease whose number is above floor.
	AcquireSharedAbove(ctx context.Context, resource string, floor int64) (Lease, error)
}

// healings is how often Heal tries a higher number. One is enough unless others
// raise the mark at the same time.
const healings = 3

// Heal is Do for a lock service that may have lost what it knew (Redis after a
// failover): where the resource refuses the token of a lease that is still
// held, as stale or as duplicate, numbers went back. Then the lease is released,
// the lock acquired above the mark that refused it, and fn run again; the
// resource has admitted nothing under the number that it refused. It gives up
// after a few times, with the refusal as error.
//
// fn must return the refusal (errors.As finds the *guard.RefusedError), and be
// one that may run again after it: let it claim first. A refusal of a lease that
// is lost, of another token, or for another reason is returned as Do returns it.
func Heal(ctx context.Context, locker FloorLocker, resource string, fn func(ctx context.Context, lease Lease) error) error {
	return heal(ctx, resource, locker.Acquire, locker.AcquireAbove, fn)
}

// HealShared is Heal with the shared lock of resource.
func HealShared(ctx context.Context, locker FloorLocker, resource string, fn func(ctx context.Context, lease Lease) error) error {
	return heal(ctx, resource, locker.AcquireShared, locker.AcquireSharedAbove, fn)
}

func heal(
	ctx context.Context, resource string,
	acquire func(ctx context.Context, resource string) (Lease, error),
	above func(ctx context.Context, resource string, floor int64) (Lease, error),
	fn func(ctx context.Context, lease Lease) error,
) error {
	lease, err := acquire(ctx, resource)
	for healed := 0; err == nil; healed++ {
		err := hold(ctx, lease, fn)
		floor, refused := refusedBelow(err, lease.Token())
		if !refused || healed == healings || errors.Is(err, ErrLost) || ctx.Err() != nil {
			return err
		}
		var errAbove error
		if lease, errAbove = above(ctx, resource, floor); errAbove != nil {
			return errors.Join(err, errAbove)
		}
	}
	return err
}

// refusedBelow reports whether err says that token is not above a mark, and
// what the highest number of that mark is.
func refusedBelow(err error, token guard.Token) (floor int64, refused bool) {
	var refusal *guard.RefusedError
	if !errors.As(err, &refusal) || refusal.Token != token || refusal.Mark.Issuer != token.Issuer ||
		(!errors.Is(refusal.Reason, guard.ErrStale) && !errors.Is(refusal.Reason, guard.ErrDuplicate)) {
		return 0, false
	}
	return max(refusal.Mark.Writer, refusal.Mark.Reader), true
}
