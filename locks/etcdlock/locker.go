package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
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

	mu       sync.Mutex
	closed   error // why no session may be opened any more
	done     bool  // Close waits for goroutines: none may start
	current  *session
	opening  *opening
	sessions map[*session]struct{} // all that have not ended in etcd
	wg       sync.WaitGroup
}

// opening is a session that is being opened, for all who wait for it.
type opening struct {
	done chan struct{} // closed when err is set
	err  error
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
		client:   client,
		leases:   clientv3.RetryLeaseClient(client),
		config:   config,
		name:     locks.NewID(),
		sessions: map[*session]struct{}{},
	}
	l.ctx, l.cancel = context.WithCancel(client.Ctx())
	context.AfterFunc(l.ctx, func() { l.shut(errClientClosed) })
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
	revoking := l.shut(errLockerClosed)
	l.cancel()
	l.mu.Lock()
	l.done = true
	l.mu.Unlock()
	l.wg.Wait()

	var errs []error
	for _, s := range revoking {
		errs = append(errs, s.left)
	}
	return errors.Join(errs...)
}

// shut ends all sessions and returns those it ended.
func (l *Locker) shut(cause error) []*session {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return nil
	}
	l.closed = cause
	var ended []*session
	for s := range l.sessions {
		s.end(cause)
		ended = append(ended, s)
	}
	return ended
}

// spawn runs f in a goroutine that Close waits for, unless Close already does.
func (l *Locker) spawn(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done {
		l.wg.Go(f)
	}
}

// join returns a session in which the caller counts as a user until it leaves.
func (l *Locker) join(ctx context.Context) (*session, error) {
	for {
		l.mu.Lock()
		if l.closed != nil {
			l.mu.Unlock()
			return nil, locks.ErrClosed
		}
		if s := l.current; s != nil && s.join() {
			l.mu.Unlock()
			return s, nil
		}
		o := l.opening
		if o == nil {
			o = &opening{done: make(chan struct{})}
			l.opening = o
			l.wg.Go(func() { l.open(o) })
		}
		l.mu.Unlock()

		select {
		case <-o.done:
			if o.err != nil {
				return nil, o.err
			}
		case <-ctx.Done():
			return nil, ended(ctx)
		}
	}
}

// open grants a new session and keeps it until it ends.
func (l *Locker) open(o *opening) {
	s, err := l.grant()
	l.mu.Lock()
	l.opening = nil
	switch {
	case l.closed != nil:
		o.err = locks.ErrClosed
		if s != nil {
			s.end(l.closed)
		}
	case err != nil:
		o.err = fmt.Errorf("open session at %v: %w", l.client.Endpoints(), err)
	default:
		l.current = s
		l.sessions[s] = struct{}{}
	}
	close(o.done)
	l.mu.Unlock()
	if s == nil {
		return
	}

	s.keep()
	l.mu.Lock()
	delete(l.sessions, s)
	if l.current == s {
		l.current = nil
	}
	l.mu.Unlock()
}

// grant asks etcd for a lease.
func (l *Locker) grant() (*session, error) {
	ctx, cancel := context.WithTimeout(l.ctx, openTimeout)
	defer cancel()
	var granted *pb.LeaseGrantResponse
	var sent time.Time
	err := l.retry(ctx, func(ctx context.Context) (err error) {
		sent = time.Now()
		granted, err = l.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: int64(l.config.TTL / time.Second)}, grpc.WaitForReady(true))
		return err
	})
	if err != nil {
		return nil, err
	}
	return newSession(l, clientv3.LeaseID(granted.ID), sent, time.Duration(granted.TTL)*time.Second), nil
}
