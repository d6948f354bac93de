package lockstest

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

const (
	// patience is how long a test waits for what must happen, and long is how long
	// leases live in tests that lose none.
	patience = 60 * time.Second
	long     = 30 * time.Second
)

// fixture is one test's resource on a service.
type fixture struct {
	testing.TB
	backend  Backend
	service  Service
	resource string
	ctx      context.Context
}

func newFixture(tb testing.TB, b Backend) *fixture {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(b.Patience, patience))
	tb.Cleanup(cancel)
	return &fixture{TB: tb, backend: b, service: b.Shared(tb), resource: tb.Name() + " " + locks.NewID(), ctx: ctx}
}

// named is f with another resource.
func (f *fixture) named(resource string) *fixture {
	other := *f
	other.resource = resource
	return &other
}

// open returns a locker with a client and a session of its own.
func (f *fixture) open() locks.Locker {
	f.Helper()
	return f.service.Open(f, f.service.Addr(), long)
}

// openVia is open through a link of its own.
func (f *fixture) openVia(ttl time.Duration) (locks.Locker, Link) {
	f.Helper()
	link := f.backend.Link(f, f.service.Addr())
	return f.service.Open(f, link.Addr(), ttl), link
}

// acquireFunc is one of the four ways to acquire.
type acquireFunc func(ctx context.Context, resource string) (locks.Lease, error)

// must acquires, and checks what every grant has to be.
func (f *fixture) must(acquire acquireFunc) locks.Lease {
	f.Helper()
	lease, err := acquire(f.ctx, f.resource)
	if err != nil {
		f.Fatalf("acquire: %v", err)
	}
	f.check(lease)
	return lease
}

func (f *fixture) check(lease locks.Lease) {
	f.Helper()
	token := lease.Token()
	switch parsed, err := guard.Parse(token.String()); {
	case err != nil:
		f.Fatalf("token %v: %v", token, err)
	case parsed != token:
		f.Fatalf("token %+v reads back as %+v", token, parsed)
	case token.Resource != f.resource:
		f.Fatalf("token is for %q, want %q", token.Resource, f.resource)
	case token.Holder == "" || token.Issuer == "":
		f.Fatalf("token %v without holder or issuer", token)
	}
}

// held checks that lease is held, as far as this process knows.
func (f *fixture) held(lease locks.Lease) {
	f.Helper()
	if err := lease.Err(); err != nil {
		f.Fatalf("Err of a held lease: %v", err)
	}
	select {
	case <-lease.Lost():
		f.Fatal("Lost of a held lease is closed")
	default:
	}
	if left := time.Until(lease.Deadline()); left <= 0 {
		f.Fatalf("Deadline of a held lease was %v ago", -left)
	}
}

// lost waits until lease is lost.
func (f *fixture) lost(lease locks.Lease) {
	f.Helper()
	select {
	case <-lease.Lost():
	case <-f.ctx.Done():
		f.Fatal("Lost is not closed")
	}
	if err := lease.Err(); !errors.Is(err, locks.ErrLost) {
		f.Fatalf("Err of a lost lease: %v", err)
	}
}

func (f *fixture) release(lease locks.Lease) {
	f.Helper()
	if err := lease.Release(f.ctx); err != nil {
		f.Fatalf("release: %v", err)
	}
}

// refused checks that a try is refused, because somebody has the lock.
func (f *fixture) refused(try acquireFunc) {
	f.Helper()
	lease, err := try(f.ctx, f.resource)
	if lease != nil || !errors.Is(err, locks.ErrHeld) {
		f.Fatalf("try = %v, %v; want ErrHeld", lease, err)
	}
}

// entries waits until the service sees n entries.
func (f *fixture) entries(n int) {
	f.Helper()
	have := -1
	f.eventually(func() bool {
		have = f.service.Entries(f, f.resource)
		return have == n
	}, "entries of %q: %d, want %d", f.resource, &have, n)
}

// free checks that the lock can be had and that nothing else is left of it.
func (f *fixture) free(by locks.Locker) {
	f.Helper()
	f.release(f.must(by.Acquire))
	f.entries(0)
}

// eventually polls until cond holds. Pointers among args are read at the end.
func (f *fixture) eventually(cond func() bool, format string, args ...any) {
	f.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-f.ctx.Done():
			for i, arg := range args {
				if p, ok := arg.(*int); ok {
					args[i] = *p
				}
			}
			f.Fatalf(format, args...)
		}
	}
}

// result is what an acquisition in the background came to.
type result struct {
	name  string
	lease locks.Lease
	err   error
}

// start acquires in the background.
func (f *fixture) start(ctx context.Context, name string, acquire acquireFunc, into chan<- result) {
	done := make(chan struct{})
	f.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		lease, err := acquire(ctx, f.resource)
		into <- result{name, lease, err}
	}()
}

// await returns the next result.
func (f *fixture) await(from <-chan result) result {
	f.Helper()
	select {
	case r := <-from:
		if (r.lease == nil) == (r.err == nil) {
			f.Fatalf("acquire = %v, %v: one of them must be nil", r.lease, r.err)
		}
		return r
	case <-f.ctx.Done():
		f.Fatal("acquire does not return")
	}
	panic("unreachable")
}

// granted is await of a grant.
func (f *fixture) granted(from <-chan result) result {
	f.Helper()
	r := f.await(from)
	if r.err != nil {
		f.Fatalf("acquire %s: %v", r.name, r.err)
	}
	f.check(r.lease)
	return r
}

// nothing checks that no acquisition has returned.
func (f *fixture) nothing(from <-chan result) {
	f.Helper()
	select {
	case r := <-from:
		f.Fatalf("%s was granted out of turn: %v, %v", r.name, r.lease, r.err)
	default:
	}
}

// rises checks that the tokens rise.
func (f *fixture) rises(leases ...locks.Lease) {
	f.Helper()
	for i := 1; i < len(leases); i++ {
		if a, b := leases[i-1].Token(), leases[i].Token(); b.Number <= a.Number || b.Issuer != a.Issuer {
			f.Fatalf("token %v was granted after %v", b, a)
		}
	}
}

// over checks that the holder of lease cannot believe that it holds it: somebody
// else just got the lock.
func (f *fixture) over(lease locks.Lease) {
	f.Helper()
	if now := time.Now(); holdsAt(lease, now) {
		f.Fatalf("%v is held for another %v, and somebody else got the lock", lease.Token(), lease.Deadline().Sub(now))
	}
}

// near checks that lease ended at its deadline: not before, and not so much
// later that something else than the local clock must have ended it. The
// deadline may have moved once after it was read.
func (f *fixture) near(deadline time.Time, lease locks.Lease) {
	f.Helper()
	const slack = 2 * time.Second
	now := time.Now()
	if last := lease.Deadline(); last.After(deadline) {
		deadline = last
	}
	if now.Before(deadline) {
		f.Fatalf("lost %v before its deadline", deadline.Sub(now))
	}
	if late := now.Sub(deadline); late > slack {
		f.Fatalf("lost %v after its deadline", late)
	}
}
