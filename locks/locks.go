package locks

import (
	"context"
	"errors"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
)

var (
	// ErrHeld is returned by TryAcquire and TryAcquireShared when somebody else
	// holds the lock in a mode that excludes the caller's, or waits before it.
	ErrHeld = errors.New("lock is held")
	// ErrLost is behind the Err of a lease that ended before its release:
	// expired, revoked, or not renewed in time. What was written under its
	// token before that was written; the resource decides about the rest.
	ErrLost = errors.New("lease is lost")
	// ErrReleased is the Err of a lease that its holder released.
	ErrReleased = errors.New("lease is released")
	// ErrClosed is behind what a Locker returns after its Close, and behind the
	// Err of the leases that the Close ended.
	ErrClosed = errors.New("locker is closed")
)

// Locker acquires locks from one lock service. It is safe for use by many
// goroutines; every acquisition is a holder of its own, also of the same
// resource (locks are not re-entrant).
type Locker interface {
	// Acquire blocks until the exclusive lock of resource is granted or ctx
	// ends. It returns a lease or an error, never both and never neither; with
	// an error nothing is left behind in the lock service beyond its lease's
	// time, whichever reply was lost (I8). The error matches ErrLost if the
	// place in the queue was lost while waiting, and guard.ErrMalformed if
	// resource is not the name of one.
	Acquire(ctx context.Context, resource string) (Lease, error)
	// AcquireShared is Acquire in shared mode: readers hold the lock together,
	// and exclude writers.
	AcquireShared(ctx context.Context, resource string) (Lease, error)
	// TryAcquire is Acquire that does not wait: ErrHeld if it would have to.
	TryAcquire(ctx context.Context, resource string) (Lease, error)
	// TryAcquireShared is AcquireShared that does not wait.
	TryAcquireShared(ctx context.Context, resource string) (Lease, error)
}

// Lease is a granted lock. It is safe for use by many goroutines.
type Lease interface {
	// Token is the fencing token of this grant. Present it with every write.
	Token() guard.Token
	// Lost is closed when the lease is over, released or lost: at the latest at
	// the local deadline, without hearing from the lock service.
	Lost() <-chan struct{}
	// Err is nil while the lease is held, then an error that matches ErrLost or
	// ErrReleased.
	Err() error
	// Deadline is the time, on the local monotonic clock, until which the lease
	// holds for certain if it is not renewed again.
	Deadline() time.Time
	// Release ends the lease. It works with a ctx that has ended, for a short
	// time of its own; a release that could not reach the lock service returns
	// an error, and the lease then ends by its time. To release a lease that is
	// lost returns its Err, a second release nil.
	Release(ctx context.Context) error
}
