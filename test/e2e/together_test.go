package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

// TestDo: everybody reads, adds and writes back under the lock. Nothing is lost,
// nobody is refused (I2, I3).
func TestDo(t *testing.T) {
	t.Parallel()
	eachLockService(t, func(t *testing.T, _ lockService, url string) {
		const workers, rounds = 4, 8
		ctx, a := testContext(t), openAccount(t)
		var want []int64
		var all sync.WaitGroup
		for i := range workers {
			locker := open(t, url)
			all.Go(func() {
				for range rounds {
					err := locks.Do(ctx, locker, resource, func(ctx context.Context, lease locks.Lease) error {
						return a.claimAndAdd(ctx, lease, int64(1+i))
					})
					if err != nil {
						t.Errorf("worker %d: %v", i, err)
					}
					err = locks.DoShared(ctx, locker, resource, func(ctx context.Context, lease locks.Lease) error {
						return a.look(ctx, lease)
					})
					if err != nil {
						t.Errorf("worker %d reads: %v", i, err)
					}
				}
			})
			for range rounds {
				want = append(want, int64(1+i))
			}
		}
		all.Wait()
		a.want(t, want...)
		a.inOrder(t)
	})
}

// TestNames: whatever a resource is called, it is one lock and one mark.
func TestNames(t *testing.T) {
	t.Parallel()
	eachLockService(t, func(t *testing.T, _ lockService, url string) {
		ctx, a, locker := testContext(t), openAccount(t), open(t, url)
		names := []string{
			"orders", "orders/eu", "/orders", "orders/", "{orders}", "or{de}rs", "orders}", "\u65e5\u672c\u8a9e", "\U0001f512/\U0001f511", "a b:c,d%2F", "..", ".",
			strings.Repeat("n", guard.MaxResourceLen), strings.Repeat("/", guard.MaxResourceLen), strings.Repeat("\u8a9e", guard.MaxResourceLen/3),
		}
		var held []locks.Lease
		for _, name := range names { // all at once
			lease, err := locker.TryAcquire(ctx, name)
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			held = append(held, lease)
		}
		for i, lease := range held {
			if err := a.store.Claim(ctx, lease.Token()); err != nil {
				t.Errorf("%q: %v", names[i], err)
			}
			mark := must(a.store.Mark(ctx, names[i]))(t)
			if mark.Writer != lease.Token().Number || mark.Holder != lease.Token().Holder {
				t.Errorf("mark of %q is %+v, want that of %v", names[i], mark, lease.Token())
			}
			if _, err := a.store.Exec(ctx, lease.Token(), "update balance set amount = amount + $1", 1<<i); err != nil {
				t.Errorf("%q: %v", names[i], err)
			}
			if err := lease.Release(ctx); err != nil {
				t.Errorf("%q: %v", names[i], err)
			}
		}
		if balance := a.number(t, "select amount from balance"); balance != 1<<len(names)-1 {
			t.Errorf("balance %b", balance)
		}
	})
}

// TestServiceIsReplaced by one that knows nothing. The numbers of Redis go on,
// as those of a clock; those of the others start again under another issuer, are
// refused, and admitted once the resource has been adopted.
func TestServiceIsReplaced(t *testing.T) {
	t.Parallel()
	eachLockService(t, func(t *testing.T, s lockService, url string) {
		ctx, a := testContext(t), openAccount(t)
		old := must(open(t, url).Acquire(ctx, resource))(t)
		if err := a.claimAndAdd(ctx, old, 1); err != nil {
			t.Fatal(err)
		}
		lease := must(open(t, s.url(s.fresh(t), locks.NewID())).Acquire(ctx, resource))(t)
		err, adopted := a.claimAndAdd(ctx, lease, 10), guard.ErrStale
		if s.name != "redis" {
			if !errors.Is(err, guard.ErrForeign) {
				t.Errorf("claim of %v after %v: %v", lease.Token(), old.Token(), err)
			}
			must(a.pool.Exec(ctx, "select fence.adopt($1, $2)", resource, lease.Token().Issuer))(t)
			err, adopted = a.claimAndAdd(ctx, lease, 10), guard.ErrForeign
		}
		if err != nil {
			t.Errorf("the current holder was refused: %v", err)
		}
		if err := a.add(ctx, old, 100); !errors.Is(err, adopted) {
			t.Errorf("the old holder: %v, want %v", err, adopted)
		}
		a.want(t, 1, 10)
	})
}

// TestHeal: who can be healed is who may have to be.
func TestHeal(t *testing.T) {
	t.Parallel()
	eachLockService(t, func(t *testing.T, s lockService, url string) {
		ctx, a := testContext(t), openAccount(t)
		locker, can := open(t, url).(locks.FloorLocker)
		if can != (s.name == "redis") {
			t.Fatalf("can be asked for a higher number: %v", can)
		}
		if !can {
			return
		}
		// A mark of numbers that the service has forgotten.
		first := must(locker.Acquire(ctx, resource))(t)
		ahead := guard.Token{Resource: resource, Number: first.Token().Number + 1<<40, Mode: guard.Exclusive, Holder: "before", Issuer: first.Token().Issuer}
		if err := errors.Join(first.Release(ctx), a.store.Claim(ctx, ahead)); err != nil {
			t.Fatal(err)
		}
		for _, way := range []string{"exclusive", "shared", "exclusive"} {
			heal, work := locks.Heal, func(ctx context.Context, lease locks.Lease) error { return a.claimAndAdd(ctx, lease, 1) }
			if way == "shared" {
				heal, work = locks.HealShared, a.look
			}
			if err := heal(ctx, locker, resource, work); err != nil {
				t.Errorf("%s: %v", way, err)
			}
		}
		a.want(t, 1, 1)
		if _, err := a.store.Exec(ctx, ahead, "update balance set amount = 0"); !errors.Is(err, guard.ErrStale) {
			t.Errorf("write under the old mark: %v", err)
		}
	})
}

// look reads under a shared token; to write is refused.
func (a *account) look(ctx context.Context, lease locks.Lease) error {
	if err := a.store.Claim(ctx, lease.Token()); err != nil {
		return err
	}
	if _, err := a.store.Exec(ctx, lease.Token(), "select amount from balance"); err != nil {
		return err
	}
	if _, err := a.store.Exec(ctx, lease.Token(), "update balance set amount = -1"); !errors.Is(err, guard.ErrReadOnly) {
		return fmt.Errorf("a reader wrote: %w", err)
	}
	return nil
}
