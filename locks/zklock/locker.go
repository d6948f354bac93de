package zklock

import (
	"context"
	"errors"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/session"
)

var _ locks.Locker = (*Locker)(nil)

// Locker acquires locks in ZooKeeper. All its locks live on one session, which
// is opened with the first acquisition, kept while there is a lock or a waiter
// and for one TTL after that, and replaced when it is lost.
type Locker struct {
	dial   Dial
	config Config
	// ctx ends with the locker.
	ctx    context.Context
	cancel context.CancelFunc

	sessions *session.Pool[*zkSession]
}

// New returns a Locker. Nothing is sent to ZooKeeper yet.
func New(dial Dial, config Config) (*Locker, error) {
	dial, err := dial.validate()
	if err != nil {
		return nil, err
	}
	config, err = config.withDefaults(dial)
	if err != nil {
		return nil, err
	}
	l := &Locker{dial: dial, config: config}
	l.sessions = session.NewPool(l.open)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// Acquire implements locks.Locker. It waits behind everybody who came first;
// with Config.Single in no order.
func (l *Locker) Acquire(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Exclusive, true)
}

// AcquireShared implements locks.Locker. It waits behind every writer that
// came first. With Config.Single its error matches guard.ErrUnsupported.
func (l *Locker) AcquireShared(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Shared, true)
}

// TryAcquire implements locks.Locker. While somebody holds the lock or waits
// for it, it writes nothing to ZooKeeper. A member that lags behind the leader
// may take a lock for held that was released a moment ago.
func (l *Locker) TryAcquire(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Exclusive, false)
}

// TryAcquireShared implements locks.Locker. While a writer holds the lock or
// waits for it, it writes nothing to ZooKeeper. With Config.Single its error
// matches guard.ErrUnsupported.
func (l *Locker) TryAcquireShared(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Shared, false)
}

// Close ends every lease that is still held, as lost, and every acquisition
// that still waits, then closes the sessions and returns when all goroutines
// have ended. The error tells that a session could not be closed within some
// seconds; what it held then ends by its time. A second Close returns nil.
func (l *Locker) Close() error {
	closing := l.sessions.End(session.ErrClosed)
	l.cancel()
	l.sessions.Wait()
	var errs []error
	for _, s := range closing {
		errs = append(errs, s.Left())
	}
	return errors.Join(errs...)
}
