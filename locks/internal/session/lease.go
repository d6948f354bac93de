package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

const (
	// watchAfter is how long an acquisition has to be under way, waiting or held,
	// before its own entry is watched. Shorter ones do not pay for a watch.
	watchAfter = 200 * time.Millisecond
	// releaseTimeout is how long Release waits for the service.
	releaseTimeout = 3 * time.Second
)

// ErrAbandoned is the cause of a lease that was never granted.
var ErrAbandoned = errors.New("acquisition was given up")

// Lease is one acquisition: a place in a queue, then a granted lock. But for
// Release it is a locks.Lease.
type Lease struct {
	life     *Life
	token    guard.Token // complete once granted
	ctx      context.Context
	cancel   context.CancelCauseFunc
	own      *time.Timer // starts the watch for the lease's own entry
	left     atomic.Bool // the session
	released atomic.Bool
}

// NewLease makes a lease of a session that the caller has joined. watch is called
// by Queued, some time later.
func NewLease(life *Life, resource string, mode guard.Mode, watch func()) *Lease {
	le := &Lease{life: life, token: guard.Token{Resource: resource, Mode: mode, Holder: locks.NewID()}}
	le.ctx, le.cancel = context.WithCancelCause(life.ctx)
	le.own = time.AfterFunc(math.MaxInt64, watch)
	return le
}

// Token implements locks.Lease.
func (le *Lease) Token() guard.Token { return le.token }

// Context ends with the lease.
func (le *Lease) Context() context.Context { return le.ctx }

// Lost implements locks.Lease.
func (le *Lease) Lost() <-chan struct{} { return le.ctx.Done() }

// Deadline implements locks.Lease. It moves with each sign of life of the service.
func (le *Lease) Deadline() time.Time { return le.life.Deadline() }

// Err implements locks.Lease. After a pause of the process it knows that the
// deadline has passed before the timer does.
func (le *Lease) Err() error {
	le.life.ExpireIfDue()
	return context.Cause(le.ctx)
}

// Within returns a context that ends with ctx and with the lease: its session is
// lost, or somebody removed its entry.
func (le *Lease) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	detach := context.AfterFunc(le.ctx, cancel)
	return ctx, func() {
		detach()
		cancel()
	}
}

// Queued has the lease's own entry watched from some time on: somebody may delete
// it by hand.
func (le *Lease) Queued() { le.own.Reset(watchAfter) }

// Grant completes the token, unless the lease was lost on the way.
func (le *Lease) Grant(number int64, issuer string) error {
	if err := le.Err(); err != nil {
		return err
	}
	le.token.Number, le.token.Issuer = number, issuer
	return le.token.Validate()
}

// Cancel ends the lease, which still counts as a user of its session, and returns
// the cause, which is an earlier one if it had ended before.
func (le *Lease) Cancel(cause error) error {
	le.cancel(cause)
	le.own.Stop()
	return context.Cause(le.ctx)
}

// End is Cancel and Leave.
func (le *Lease) End(cause error) error {
	defer le.Leave()
	return le.Cancel(cause)
}

// Leave gives up the lease's part of its session; more than once does nothing.
func (le *Lease) Leave() {
	if !le.left.Swap(true) {
		le.life.Leave()
	}
}

// Release ends the lease as released, and has remove take its entry away, for a
// short time even if ctx has ended.
func (le *Lease) Release(ctx context.Context, remove func(context.Context) error) error {
	if le.released.Swap(true) {
		return nil
	}
	le.life.ExpireIfDue()
	// Only when it has left may the session end: that would remove the entry as
	// well, and it would look as if somebody else had.
	defer le.Leave()
	if cause := le.Cancel(locks.ErrReleased); !errors.Is(cause, locks.ErrReleased) {
		return cause
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	return remove(ctx)
}

// ErrStale is behind the error of an attempt to acquire whose session turned out
// to be over before it had a place in it.
var ErrStale = fmt.Errorf("%w: session ended before the lock was asked for", locks.ErrLost)

// freshSessions is how many such sessions an acquisition tries.
const freshSessions = 3

// Attempt acquires the lock of resource, on another session when one is stale.
func Attempt(resource string, attempt func() (locks.Lease, error)) (locks.Lease, error) {
	for try := 1; ; try++ {
		lease, err := attempt()
		switch {
		case err == nil:
			return lease, nil
		case errors.Is(err, ErrStale) && try < freshSessions:
			continue
		}
		return nil, fmt.Errorf("acquire %q: %w", resource, err)
	}
}
