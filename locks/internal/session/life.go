package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/wait"
)

// Why sessions end in this process, whatever the service.
var (
	// ErrExpired is the cause of a session that reached its deadline.
	ErrExpired = fmt.Errorf("%w: not renewed by its deadline", locks.ErrLost)
	// ErrClosed is the cause of one whose locker was closed.
	ErrClosed = fmt.Errorf("%w: %w", locks.ErrLost, locks.ErrClosed)
	errIdle   = fmt.Errorf("%w: session was idle", locks.ErrLost)
)

// Terms are what a service granted.
type Terms struct {
	// TTL is how long the service keeps the session after it has heard of it. A
	// session that nobody uses is given up after it, too.
	TTL time.Duration
	// Sure is how much of it is relied on here.
	Sure time.Duration
	// Renew is after how much of it the service is to be asked again.
	Renew time.Duration
}

// Life is a session as this process knows it: who uses it, and how long it lasts
// for certain, by the monotonic clock and without hearing from anybody.
type Life struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wake   chan struct{} // tells Keep that the session may be finished

	mu        sync.Mutex
	terms     Terms
	sent      time.Time // when the last request was sent that shows that the service keeps the session
	deadline  time.Time
	timer     *time.Timer // fires at deadline
	users     int
	idleSince time.Time
	retired   bool // takes no more users
}

// NewLife returns a session without a deadline: nobody has heard of it yet. It
// has to be ended.
func NewLife(asked Terms) *Life {
	l := &Life{terms: asked, wake: make(chan struct{}, 1), idleSince: time.Now()}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// Context ends with the session, with a cause that matches locks.ErrLost.
func (l *Life) Context() context.Context { return l.ctx }

// Over is the cause of the session's end, nil before.
func (l *Life) Over() error { return context.Cause(l.ctx) }

// Extend moves the deadline after an answer to a request sent at the given time.
// The clock is the monotonic one, and it has to be read before the request
// leaves: the service's clock for the session can only have started later. An
// answer that was overtaken moves nothing back, and one that came too late does
// not bring the session back: its locks were reported lost.
func (l *Life) Extend(sent time.Time, terms Terms) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil || sent.Before(l.sent) {
		return
	}
	l.sent, l.terms = sent, terms
	l.deadline = sent.Add(terms.Sure)
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(l.deadline), l.ExpireIfDue)
		return
	}
	l.timer.Reset(time.Until(l.deadline))
}

// Terms are the newest ones, or those that were asked for.
func (l *Life) Terms() Terms {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.terms
}

// Deadline is until when the session lasts if it is not renewed again.
func (l *Life) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// ExpireIfDue ends the session if its deadline has passed. It runs by timer, and
// is to be called whenever somebody asks: after a pause of the process the timer
// may be late.
func (l *Life) ExpireIfDue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.deadline.IsZero() && !time.Now().Before(l.deadline) {
		l.end(ErrExpired)
	}
}

// End ends the session, and with it every lease, in this process. Keep then
// returns.
func (l *Life) End(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(cause)
}

func (l *Life) end(cause error) {
	l.retired = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.cancel(cause)
}

// Join counts the caller as a user until it leaves, unless the session takes no
// more.
func (l *Life) Join() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired {
		return false
	}
	l.users++
	return true
}

// Leave takes one user away.
func (l *Life) Leave() {
	l.mu.Lock()
	l.users--
	l.idleSince = time.Now()
	last := l.users == 0 && l.retired
	l.mu.Unlock()
	if last {
		l.prod()
	}
}

// Used reports whether the session has users.
func (l *Life) Used() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.users > 0
}

// Retire takes the session out of use: it ends when its last user leaves.
func (l *Life) Retire() {
	l.mu.Lock()
	l.retired = true
	l.mu.Unlock()
	l.prod()
}

func (l *Life) prod() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// finish retires the session if nobody uses it any more, and reports whether it
// may end.
func (l *Life) finish() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == 0 && time.Since(l.idleSince) >= l.terms.TTL {
		l.retired = true
	}
	return l.retired && l.users == 0
}

func (l *Life) untilRenewal() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.sent.Add(l.terms.Renew))
}

// Keep calls renew whenever the session has to be renewed, until the session
// ends. If renew succeeds it has had Extend called.
func (l *Life) Keep(renew func() error) {
	pause := time.NewTimer(l.untilRenewal())
	defer pause.Stop()
	for {
		select {
		case <-l.ctx.Done():
		case <-l.wake:
		case <-pause.C:
		}
		if l.finish() {
			l.End(errIdle)
		}
		if l.ctx.Err() != nil {
			return
		}
		next := l.untilRenewal()
		if next <= 0 {
			if err := renew(); err == nil {
				next = l.untilRenewal()
			} else {
				// Only the deadline makes a session lost that the service may still have.
				next = l.again()
			}
		}
		pause.Reset(next)
	}
}

// again is the pause after something failed.
func (l *Life) again() time.Duration {
	return min(max(l.Terms().TTL/30, 10*time.Millisecond), time.Second)
}

// Sweep calls remove until it succeeds or the session is over, which removes what
// is in it. What does not succeed at once costs the session: it takes no new
// users, so that it ends with those that it has; and failed gets the error.
func (l *Life) Sweep(remove func(ctx context.Context) error, failed func(error)) {
	for l.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(l.ctx, l.Terms().TTL/3)
		err := remove(ctx)
		cancel()
		if err == nil || l.ctx.Err() != nil {
			return
		}
		failed(err)
		l.Retire()
		wait.Sleep(l.ctx, l.again())
	}
}
