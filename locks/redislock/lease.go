package redislock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

var _ locks.Lease = (*lease)(nil)

// Why a lease is over before its holder released it.
var (
	errExpired      = fmt.Errorf("%w: not renewed by its deadline", locks.ErrLost)
	errGone         = fmt.Errorf("%w: Redis does not have it any more", locks.ErrLost)
	errLockerClosed = fmt.Errorf("%w: %w", locks.ErrLost, locks.ErrClosed)
	// errAbandoned is the cause of a lease that was never granted.
	errAbandoned = errors.New("acquisition was given up")
)

// releaseTimeout is how long Release waits for Redis.
const releaseTimeout = 3 * time.Second

// lease is one acquisition: a place in a queue, then a granted lock. In Redis
// both are kept alive by the same request, which also tells when the one has
// become the other.
type lease struct {
	locker *Locker
	member string // what Redis knows it by
	keys   []string
	floor  int64
	token  guard.Token // complete when granted is closed
	ctx    context.Context
	cancel context.CancelCauseFunc
	// granted is closed when Redis has granted the lock.
	granted chan struct{}
	// doubtful: a request to acquire was not answered (yet), so it may be
	// carried out later.
	doubtful atomic.Bool
	absent   bool // there is nothing in Redis to be given up
	ending   atomic.Bool
	released atomic.Bool
	beating  sync.Mutex // held while it is being kept alive

	mu       sync.Mutex
	sent     time.Time // when the last request that kept it alive was sent
	deadline time.Time
	expiry   *time.Timer // fires at deadline
	beat     *time.Timer // starts renew
	early    time.Time   // when that may be, if another lease is renewed
}

// newLease makes a lease that nobody knows yet.
func (l *Locker) newLease(resource string, mode guard.Mode, floor int64) *lease {
	holder := locks.NewID()
	le := &lease{
		locker:  l,
		member:  mode.String() + holder + ":" + l.name,
		keys:    l.config.keys(resource, holder),
		floor:   floor,
		token:   guard.Token{Resource: resource, Mode: mode, Holder: holder, Issuer: l.config.Issuer},
		granted: make(chan struct{}),
	}
	le.ctx, le.cancel = context.WithCancelCause(context.Background())
	return le
}

// Token implements locks.Lease.
func (le *lease) Token() guard.Token { return le.token }

// Lost implements locks.Lease.
func (le *lease) Lost() <-chan struct{} { return le.ctx.Done() }

// Deadline implements locks.Lease. It moves with each renewal.
func (le *lease) Deadline() time.Time {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.deadline
}

// Err implements locks.Lease. After a pause of the process it knows that the
// deadline has passed before the timer does.
func (le *lease) Err() error {
	le.expireIfDue()
	return context.Cause(le.ctx)
}

// Release implements locks.Lease. It waits at most three seconds for Redis; a
// lock that could not be released by then is released in the background, until
// its time is over.
func (le *lease) Release(ctx context.Context) error {
	if le.released.Swap(true) {
		return nil
	}
	if !le.locker.enter() {
		return le.end(errLockerClosed)
	}
	defer le.locker.calls.Done()
	le.expireIfDue()
	if cause := le.end(locks.ErrReleased); !errors.Is(cause, locks.ErrReleased) {
		return cause
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	found, err := le.leave(ctx, releaseTimeout)
	switch {
	case err != nil:
		le.sweep()
		return fmt.Errorf("release %q: %w", le.token.Resource, err)
	case !found:
		return errGone
	}
	return nil
}

// end ends the lease in this process and returns its cause, which is an earlier
// one if it had ended before.
func (le *lease) end(cause error) error {
	le.cancel(cause)
	if !le.ending.Swap(true) {
		le.mu.Lock()
		if le.expiry != nil {
			le.expiry.Stop()
			le.beat.Stop()
		}
		le.mu.Unlock()
		le.locker.remove(le)
	}
	return context.Cause(le.ctx)
}

// lose ends the lease and says so, if it was granted.
func (le *lease) lose(cause error) {
	if !errors.Is(le.end(cause), cause) {
		return
	}
	select {
	case <-le.granted:
		le.locker.config.Logger.Warn("lease is lost", keyResource, le.token.Resource, keyHolder, le.token.Holder, keyError, cause)
	default:
	}
}

func (le *lease) expireIfDue() {
	le.mu.Lock()
	due := !le.deadline.IsZero() && !time.Now().Before(le.deadline)
	le.mu.Unlock()
	if due {
		le.lose(errExpired)
	}
}

// heard takes an answer that says that the lease is alive.
func (le *lease) heard(r reply) {
	le.extend(r.sent)
	if r.state == isGranted {
		le.grant(r.number)
		return
	}
	le.locker.listen()
	poll := le.locker.config.FallbackPoll
	poll = poll*3/4 + rand.N(poll/4) //nolint:gosec // waiters that came together spread
	early := poll * 3 / 4
	if r.wait >= 0 && r.wait < poll {
		poll = r.wait + time.Millisecond
		early = poll
	}
	le.schedule(early, poll)
}

// extend moves the deadline: what keeps the lease alive was sent at that time,
// and came to Redis after it.
func (le *lease) extend(sent time.Time) {
	le.mu.Lock()
	defer le.mu.Unlock()
	if !sent.After(le.sent) {
		return
	}
	le.sent = sent
	le.deadline = sent.Add(le.locker.config.TTL - le.locker.config.TTL/20)
	switch {
	case le.ending.Load():
	case le.expiry == nil:
		le.expiry = time.AfterFunc(time.Until(le.deadline), le.expireIfDue)
		le.beat = time.AfterFunc(le.locker.config.TTL, func() { le.locker.spawn(le.renew) })
	default:
		le.expiry.Reset(time.Until(le.deadline))
	}
}

// grant takes the number, from whichever answer or message says it first. A
// second one is not this grant: Redis has lost that, and a late request to
// acquire was carried out in its place.
func (le *lease) grant(number int64) {
	le.mu.Lock()
	select {
	case <-le.granted:
	default:
		le.token.Number = number
		close(le.granted)
	}
	first := le.token.Number
	age := time.Since(le.sent)
	le.mu.Unlock()
	if number != first {
		le.doubtful.Store(true)
		le.lose(errGone)
		le.locker.spawn(le.giveBack)
		return
	}
	ttl := le.locker.config.TTL
	spread := rand.N(ttl / 24) //nolint:gosec // the first of those that go together takes the others along
	le.schedule(ttl/4-age, ttl/3-spread-age)
}

// schedule has renew run after late, or together with another lease's after early.
func (le *lease) schedule(early, late time.Duration) {
	le.mu.Lock()
	defer le.mu.Unlock()
	if !le.ending.Load() && le.beat != nil {
		le.early = time.Now().Add(early)
		le.beat.Reset(late)
	}
}

// leave gives up the lock or the place in its queue for good, and reports
// whether it was there. Where a request to acquire may still be on its way it
// is kept from bringing it back: nobody would hold that lock (I8).
func (le *lease) leave(ctx context.Context, within time.Duration) (found bool, err error) {
	op := opLeave
	if le.doubtful.Load() {
		op = opBury
	}
	r, err := le.ask(ctx, le.locker.ctx, within, op)
	// What an attempt that was not answered gave up was there.
	return r.state == isLeft || r.doubtful, err
}

// sweep gives up a lease that is over, in the background. Close waits for it as
// long as for what it gives up itself.
func (le *lease) sweep() {
	l := le.locker
	l.sweeps.Add(1) // in a call, so before Close waits
	if !l.spawn(func() { defer l.sweeps.Done(); le.giveBack() }) {
		l.sweeps.Done()
	}
}

// giveBack gives up a lease that is over, until Redis has answered or its time
// is over there.
func (le *lease) giveBack() {
	l := le.locker
	if _, err := le.leave(l.ctx, l.config.TTL); err != nil && l.ctx.Err() == nil {
		l.config.Logger.Warn("give up lock", keyResource, le.token.Resource, keyHolder, le.token.Holder, keyError, err)
	}
}
