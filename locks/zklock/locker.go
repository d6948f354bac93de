package zklock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
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

	mu       sync.Mutex
	closed   bool // no session may be opened any more
	done     bool // Close waits for goroutines: none may start
	current  *session
	opening  *opening
	sessions map[*session]struct{} // all that have not been closed
	wg       sync.WaitGroup
}

// opening is a session that is being opened, for all who wait for it.
type opening struct {
	done chan struct{} // closed when err is set
	err  error
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
	l := &Locker{dial: dial, config: config, sessions: map[*session]struct{}{}}
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
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	var closing []*session
	for s := range l.sessions {
		s.end(errLockerClosed)
		closing = append(closing, s)
	}
	l.done = true
	l.mu.Unlock()
	l.cancel()
	l.wg.Wait()
	if !first {
		return nil
	}
	var errs []error
	for _, s := range closing {
		errs = append(errs, s.left())
	}
	return errors.Join(errs...)
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
		if l.closed {
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

// open opens a new session and keeps it until it ends.
func (l *Locker) open(o *opening) {
	s, err := l.openSession()
	l.mu.Lock()
	l.opening = nil
	switch {
	case l.closed:
		o.err = locks.ErrClosed
		if s != nil {
			s.end(errLockerClosed)
		}
	case err != nil:
		o.err = fmt.Errorf("open session at %v: %w", l.dial.Servers, err)
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
