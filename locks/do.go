package locks

import (
	"context"
	"errors"
)

// Do runs fn while it holds the exclusive lock of resource. The ctx that fn
// gets ends when ctx does or when the lease is lost; in the latter case its
// cause matches ErrLost. The lease is released when fn returns, panics or ends
// its goroutine, also if ctx has ended.
//
// The error is that of Acquire, or it tells how fn ended: fn's own error, with
// its identity (errors.Is, errors.As, guard.OutcomeOf), joined with the
// lease's error if that was lost before it could be released, even if fn
// returned nil, since somebody else may have worked at the same time. A
// release that could not reach the lock service is not an error of Do: what fn
// did is done, and the lock ends by its time.
func Do(ctx context.Context, locker Locker, resource string, fn func(ctx context.Context, lease Lease) error) error {
	lease, err := locker.Acquire(ctx, resource)
	if err != nil {
		return err
	}
	return hold(ctx, lease, fn)
}

// DoShared is Do with the shared lock of resource.
func DoShared(ctx context.Context, locker Locker, resource string, fn func(ctx context.Context, lease Lease) error) error {
	lease, err := locker.AcquireShared(ctx, resource)
	if err != nil {
		return err
	}
	return hold(ctx, lease, fn)
}

func hold(ctx context.Context, lease Lease, fn func(ctx context.Context, lease Lease) error) (err error) {
	held, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-lease.Lost():
			cancel(lease.Err())
		case <-held.Done():
		}
	}()
	// Deferred, so that a panic or a Goexit in fn releases too.
	defer func() {
		lost := lease.Err()
		cancel(nil)
		<-watched
		if released := lease.Release(context.WithoutCancel(ctx)); lost == nil && errors.Is(released, ErrLost) {
			lost = released
		}
		if errors.Is(lost, ErrLost) && !errors.Is(err, ErrLost) {
			err = errors.Join(err, lost)
		}
	}()
	return fn(held, lease)
}
