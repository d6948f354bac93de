package etcdlock

import (
	"context"
	"errors"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/session"
)

var _ locks.Locker = (*Locker)(nil)

// Locker acquires locks in etcd. All its locks live on one session, an etcd
// lease that is granted with the first acquisition, renewed while there is a
// lock or a waiter and for one TTL after that, and replaced when it is lost.
type Locker struct {
	client *clientv3.Client
	leases pb.LeaseClient
	config Config
	name   string       // tells this locker's watch streams from others of the client
	stream atomic.Int64 // counts the watch streams that failed
	// ctx ends with the locker or its client.
	ctx    context.Context
	cancel context.CancelFunc

	sessions *session.Pool[*etcdSession]
}

// New returns a Locker that uses client, which stays the caller's: it must
// outlive the Locker. Nothing is sent to etcd yet.
func New(client *clientv3.Client, config Config) (*Locker, error) {
	if client == nil || client.ActiveConnection() == nil {
		return nil, errors.New("etcdlock: the client has no connection")
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Locker{
		client: client,
		leases: clientv3.RetryLeaseClient(client),
		config: config,
		name:   locks.NewID(),
	}
	l.sessions = session.NewPool(l.grant)
	l.ctx, l.cancel = context.WithCancel(client.Ctx())
	context.AfterFunc(l.ctx, func() { l.sessions.End(errClientClosed) })
	return l, nil
}

// Acquire implements locks.Locker. It waits behind everybody who came first.
func (l *Locker) Acquire(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Exclusive, true)
}

// AcquireShared implements locks.Locker. It waits behind every writer that
// came first.
func (l *Locker) AcquireShared(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Shared, true)
}

// TryAcquire implements locks.Locker. While somebody holds the lock or waits
// for it, it writes nothing to etcd.
func (l *Locker) TryAcquire(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Exclusive, false)
}

// TryAcquireShared implements locks.Locker. While a writer holds the lock or
// waits for it, it writes nothing to etcd.
func (l *Locker) TryAcquireShared(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Shared, false)
}

// Close ends every lease that is still held, as lost, and every acquisition
// that still waits, then revokes the sessions and returns when all goroutines
// have ended. The error tells that a session could not be revoked within two
// seconds; what it held then ends by its time. A second Close returns nil.
func (l *Locker) Close() error {
	revoking := l.sessions.End(session.ErrClosed)
	l.cancel()
	l.sessions.Wait()

	var errs []error
	for _, s := range revoking {
		errs = append(errs, s.left)
	}
	return errors.Join(errs...)
}
