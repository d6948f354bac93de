package lockstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

func testQueue(s *suite, b Backend) {
	// Readers that come together are granted together, and one that comes after
	// a waiting writer waits for it: else its number would be above the
	// writer's while it is granted before.
	s.run("first come first served", func(f *fixture) {
		lockers := []locks.Locker{f.open(), f.open()}
		last := f.must(lockers[0].Acquire)
		got := make(chan result, 16)
		plan := []string{"r1", "r2", "w3", "w4", "r5", "w6", "r7", "r8"}
		for i, name := range plan {
			locker := lockers[i%2]
			acquire := locker.AcquireShared
			if name[0] == 'w' {
				acquire = locker.Acquire
			}
			f.start(f.ctx, name, acquire, got)
			f.entries(i + 2)
		}
		f.refused(lockers[1].TryAcquire)
		f.entries(len(plan) + 1)
		for _, group := range [][]string{{"r1", "r2"}, {"w3"}, {"w4"}, {"r5"}, {"w6"}, {"r7", "r8"}} {
			f.nothing(got)
			f.refused(lockers[0].TryAcquireShared) // behind those who wait
			f.release(last)
			turn := map[string]locks.Lease{}
			for range group {
				r := f.granted(got)
				f.rises(last, r.lease)
				turn[r.name] = r.lease
			}
			for i, name := range group {
				if turn[name] == nil {
					f.Fatalf("granted %v, want %v", turn, group)
				}
				f.held(turn[name])
				last = turn[name]
				if i < len(group)-1 {
					f.release(last) // all but the last of them, which still keeps the next out
				}
			}
		}
		f.release(last)
		f.entries(0)
	})

	s.run("waiter that gives up lets those behind it pass", func(f *fixture) {
		a := f.open()
		reader := f.must(a.AcquireShared)
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		gaveUp, got := make(chan result, 1), make(chan result, 1)
		f.start(ctx, "writer", a.Acquire, gaveUp)
		f.entries(2)
		f.start(f.ctx, "reader", a.AcquireShared, got)
		f.entries(3)
		f.nothing(got)
		f.refused(a.TryAcquireShared) // else a writer might wait for ever
		cancel()
		if r := f.await(gaveUp); !errors.Is(r.err, context.Canceled) {
			f.Fatalf("acquire with a cancelled ctx: %v", r.err)
		}
		r := f.granted(got) // while the first reader still holds
		f.held(reader)
		f.release(reader)
		f.release(r.lease)
		f.entries(0)
	})
}

// ledger is a resource that checks what the locks promise: who is in it, and
// by the rule that no current holder is ever refused (I3).
type ledger struct {
	mu      sync.Mutex
	mark    guard.Mark
	readers int
	writers int
	grants  int
}

func (l *ledger) enter(token guard.Token) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	mark, err := guard.Admit(l.mark, token)
	if err != nil {
		return fmt.Errorf("current holder was refused: %w", err)
	}
	l.mark = mark
	l.grants++
	if token.Mode == guard.Shared {
		l.readers++
	} else {
		l.writers++
	}
	if l.writers > 1 || l.writers == 1 && l.readers > 0 {
		return fmt.Errorf("%d writers and %d readers hold the lock", l.writers, l.readers)
	}
	return nil
}

func (l *ledger) exit(token guard.Token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token.Mode == guard.Shared {
		l.readers--
	} else {
		l.writers--
	}
}

// testMany has many goroutines on few lockers, in all modes at once.
func testMany(s *suite, b Backend) {
	const goroutines, rounds = 16, 8
	s.run("all modes at once", func(f *fixture) {
		lockers := []locks.Locker{f.open(), f.open()}
		var l ledger
		var wg sync.WaitGroup
		for i := range goroutines {
			locker := lockers[i%len(lockers)]
			ways := []acquireFunc{locker.Acquire, locker.AcquireShared, locker.TryAcquire, locker.TryAcquireShared}
			wg.Go(func() {
				for round := range rounds {
					if err := f.visit(&l, ways[(i/2+round)%len(ways)], round%3 == 0); err != nil {
						f.Errorf("goroutine %d, round %d: %v", i, round, err)
						return
					}
				}
			})
		}
		wg.Wait()
		f.entries(0)
		if l.grants < goroutines*rounds/4 {
			f.Errorf("only %d grants", l.grants)
		}
	})
}

// visit acquires, enters the ledger and releases. If hasty, the ctx may end at
// any time.
func (f *fixture) visit(l *ledger, acquire acquireFunc, hasty bool) error {
	ctx := f.ctx
	if hasty {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
	}
	lease, err := acquire(ctx, f.resource)
	switch {
	case errors.Is(err, locks.ErrHeld), err != nil && hasty && ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	if err := l.enter(lease.Token()); err != nil {
		return err
	}
	// Long enough to be met, and for hasty ones to give up waiting.
	stay := time.NewTimer(time.Millisecond)
	<-stay.C
	l.exit(lease.Token())
	return lease.Release(f.ctx)
}
