package session

import (
	"context"
	"sync"

	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/wait"
)

// Session is one of a service, with its Life.
type Session interface {
	comparable
	Join() bool
	End(cause error)
	// Serve keeps the session until it ends, then closes it in the service.
	Serve()
}

// Pool is the sessions of a locker: that of the moment, which is opened by the
// first who needs it and replaced when it takes no more users, and those before
// it that have not ended. It is also all the goroutines of the locker.
type Pool[S Session] struct {
	open func() (S, error)

	mu      sync.Mutex
	closed  error // why no session may be opened any more
	done    bool  // Wait was called: no goroutine may start
	current S
	opening *opening
	all     map[S]struct{} // all that have not ended in the service
	wg      sync.WaitGroup
}

// opening is a session that is being opened, for all who wait for it.
type opening struct {
	done chan struct{} // closed when err is set
	err  error
}

// NewPool returns an empty pool that opens its sessions with open.
func NewPool[S Session](open func() (S, error)) *Pool[S] {
	return &Pool[S]{open: open, all: map[S]struct{}{}}
}

// Go runs f in a goroutine that Wait waits for, unless it already does.
func (p *Pool[S]) Go(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done {
		p.wg.Go(f)
	}
}

// Join returns a session in which the caller counts as a user until it leaves,
// or locks.ErrClosed after End.
func (p *Pool[S]) Join(ctx context.Context) (S, error) {
	var none S
	for {
		p.mu.Lock()
		if p.closed != nil {
			p.mu.Unlock()
			return none, locks.ErrClosed
		}
		if s := p.current; s != none && s.Join() {
			p.mu.Unlock()
			return s, nil
		}
		o := p.opening
		if o == nil {
			o = &opening{done: make(chan struct{})}
			p.opening = o
			p.wg.Go(func() { p.serve(o) })
		}
		p.mu.Unlock()

		select {
		case <-o.done:
			if o.err != nil {
				return none, o.err
			}
		case <-ctx.Done():
			return none, wait.Ended(ctx)
		}
	}
}

// serve opens a new session and serves it until it ends.
func (p *Pool[S]) serve(o *opening) {
	s, err := p.open()
	p.mu.Lock()
	p.opening = nil
	switch {
	case p.closed != nil:
		o.err = locks.ErrClosed
		if err == nil {
			s.End(p.closed)
		}
	case err != nil:
		o.err = err
	default:
		p.current = s
		p.all[s] = struct{}{}
	}
	close(o.done)
	p.mu.Unlock()
	if err != nil {
		return
	}

	s.Serve()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, s)
	if p.current == s {
		var none S
		p.current = none
	}
}

// End ends all sessions, has no more opened, and returns those it ended: none the
// second time.
func (p *Pool[S]) End(cause error) []S {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed != nil {
		return nil
	}
	p.closed = cause
	var ended []S
	for s := range p.all {
		s.End(cause)
		ended = append(ended, s)
	}
	return ended
}

// Wait returns when all sessions are closed and all goroutines have ended. End
// comes first.
func (p *Pool[S]) Wait() {
	p.mu.Lock()
	p.done = true
	p.mu.Unlock()
	p.wg.Wait()
}
