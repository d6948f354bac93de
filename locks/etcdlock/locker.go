package etcdlock

import (
	"context"
	"errors"
	"reflect"

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
	// ctx ends with the locker or its client.
	ctx    context.Context
	cancel context.CancelFunc

	sessions *session.Pool[*etcdSession]
	watches  *watches
	doubts   doubts
}

// New returns a Locker that uses client, which stays the caller's: it must
// outlive the Locker. Nothing is sent to etcd yet. The client's Watcher must not
// have been replaced, as that of a namespace is: the Locker watches past it.
func New(client *clientv3.Client, config Config) (*Locker, error) {
	if client == nil || client.ActiveConnection() == nil {
		return nil, errors.New("etcdlock: the client has no connection")
	}
	if reflect.TypeOf(client.Watcher) != reflect.TypeOf(clientv3.NewWatcher(client)) {
		return nil, errors.New("etcdlock: the client's Watcher was replaced, perhaps by that of a namespace: use Prefix instead")
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Locker{
		client: client,
		leases: clientv3.RetryLeaseClient(client),
		config: config,
	}
	l.sessions = session.NewPool(l.grant)
	l.ctx, l.cancel = context.WithCancel(client.Ctx())
	l.watches = newWatches(l)
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
