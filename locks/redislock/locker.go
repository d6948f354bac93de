package redislock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

var _ locks.FloorLocker = (*Locker)(nil)

// leaveTimeout is how long Close waits for Redis.
const leaveTimeout = 2 * time.Second

// Locker acquires locks in Redis.
type Locker struct {
	client   goredis.UniversalClient
	config   Config
	hash     string // of lock.lua
	name     string // tells this locker from others
	channels string // prefix of the channels on which lockers are woken
	prompt   bool   // the client ends a request in time
	checked  sync.Map
	// ctx ends with the locker.
	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex
	closed    bool // no call may begin any more
	done      bool // Close waits for goroutines: none may start
	listening bool
	leases    map[string]*lease // by member, all that have not ended
	calls     sync.WaitGroup    // of Acquire and Release
	sweeps    sync.WaitGroup    // that such a call has left behind
	wg        sync.WaitGroup    // all goroutines
	gathering sync.Mutex        // held while leases that go together are found
}

// New returns a Locker that uses client, which stays the caller's: it must
// outlive the Locker. The client is one of a single server, of a primary found
// by Sentinel, or of a Cluster, and has a ReadTimeout. Its option
// ContextTimeoutEnabled makes requests faster, and one to a Redis that hangs ends
// when it is given up; without, it goes on in the background for as long as the
// client's timeouts let it. Nothing is sent to Redis yet.
func New(client goredis.UniversalClient, config Config) (*Locker, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	var timeout time.Duration
	var prompt bool
	switch client := client.(type) {
	case *goredis.Client:
		timeout, prompt = client.Options().ReadTimeout, client.Options().ContextTimeoutEnabled
	case *goredis.ClusterClient:
		timeout, prompt = client.Options().ReadTimeout, client.Options().ContextTimeoutEnabled
	case *goredis.Ring:
		return nil, errors.New("redislock: a Ring moves locks to another server while they are held")
	default:
		return nil, fmt.Errorf("redislock: client is a %T", client)
	}
	if timeout <= 0 {
		return nil, errors.New("redislock: a client without ReadTimeout could hang for ever")
	}
	l := &Locker{
		client:   client,
		config:   config,
		hash:     goredis.NewScript(source).Hash(),
		name:     locks.NewID(),
		channels: config.Prefix + "wake:",
		prompt:   prompt,
		leases:   map[string]*lease{},
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// Acquire implements locks.Locker. It waits behind everybody who came first.
func (l *Locker) Acquire(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Exclusive, 0, opAcquire)
}

// AcquireShared implements locks.Locker. It waits behind every writer that
// came first.
func (l *Locker) AcquireShared(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Shared, 0, opAcquire)
}

// AcquireAbove implements locks.FloorLocker. All later numbers of the resource
// are above floor too, whoever gets them.
func (l *Locker) AcquireAbove(ctx context.Context, resource string, floor int64) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Exclusive, floor, opAcquire)
}

// AcquireSharedAbove implements locks.FloorLocker.
func (l *Locker) AcquireSharedAbove(ctx context.Context, resource string, floor int64) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Shared, floor, opAcquire)
}

// TryAcquire implements locks.Locker. While somebody holds the lock or waits
// for it, it writes nothing to Redis.
func (l *Locker) TryAcquire(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Exclusive, 0, opTry)
}

// TryAcquireShared implements locks.Locker. While a writer holds the lock or
// waits for it, it writes nothing to Redis.
func (l *Locker) TryAcquireShared(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Shared, 0, opTry)
}

// Close ends every lease that is still held, as lost, and every acquisition
// that still waits, gives them up in Redis, and returns when all goroutines
// have ended. At a Redis that hangs that is some seconds if the client has
// ContextTimeoutEnabled, and else when its timeouts have ended the requests
// under way, half a minute by default. The error tells that something could not be given up
// within two seconds; it then ends by its time. A second Close returns nil.
func (l *Locker) Close() error {
	ended := l.shut()
	timer := time.AfterFunc(leaveTimeout, l.cancel)
	errs := make([]error, len(ended))
	var leaving sync.WaitGroup
	for i, le := range ended {
		leaving.Go(func() {
			if _, err := le.leave(l.ctx, leaveTimeout); err != nil {
				errs[i] = fmt.Errorf("release %q: %w", le.token.Resource, err)
			}
		})
	}
	leaving.Wait()
	l.calls.Wait()
	l.sweeps.Wait()
	timer.Stop()
	l.cancel()
	l.mu.Lock()
	l.done = true
	l.mu.Unlock()
	l.wg.Wait()
	return errors.Join(errs...)
}

// shut ends all leases and returns those it ended.
func (l *Locker) shut() []*lease {
	l.mu.Lock()
	l.closed = true
	var all []*lease
	for _, le := range l.leases {
		all = append(all, le)
	}
	l.mu.Unlock()
	var ended []*lease
	for _, le := range all {
		if errors.Is(le.end(errLockerClosed), locks.ErrClosed) {
			ended = append(ended, le)
		}
	}
	return ended
}

// spawn runs f in a goroutine that Close waits for, unless Close already does.
func (l *Locker) spawn(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return false
	}
	l.wg.Go(f)
	return true
}

// enter begins a call, which ends with l.calls.Done, unless the locker is closed.
func (l *Locker) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.calls.Add(1)
	return true
}

// add makes le known, so that it can be woken and closed.
func (l *Locker) add(le *lease) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return locks.ErrClosed
	}
	l.leases[le.member] = le
	return nil
}

func (l *Locker) remove(le *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leases, le.member)
}

// all returns the leases that have not ended.
func (l *Locker) all() []*lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*lease, 0, len(l.leases))
	for _, le := range l.leases {
		all = append(all, le)
	}
	return all
}
