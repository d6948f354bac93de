package zklock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

func TestClose(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	locker, other := s.near(t), s.near(t)
	held, lease := locktest.MustAcquire(t, other.Acquire, "theirs"), locktest.MustAcquire(t, locker.Acquire, "ours")
	wait := locktest.Background(locktest.Context(t), t, locker.Acquire, "theirs")
	s.awaitEntries(t, "theirs", 2)
	for range 2 {
		if err := locker.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if g := <-wait; !errors.Is(g.Err, locks.ErrClosed) || !errors.Is(g.Err, locks.ErrLost) {
		t.Errorf("acquire that Close ended: %v", g.Err)
	}
	if err := lease.Err(); !errors.Is(err, locks.ErrClosed) || !errors.Is(err, locks.ErrLost) {
		t.Errorf("Err of a lease that Close ended: %v", err)
	}
	if err := lease.Release(locktest.Context(t)); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Release of a lease that Close ended: %v", err)
	}
	if _, err := locker.Acquire(locktest.Context(t), "r"); !errors.Is(err, locks.ErrClosed) || errors.Is(err, locks.ErrLost) {
		t.Errorf("Acquire after Close: %v", err)
	}
	if a, b := s.Entries(t, "ours"), s.Entries(t, "theirs"); a != 0 || b != 1 {
		t.Errorf("%d and %d nodes after Close", a, b)
	}
	locktest.MustRelease(t, held)
}

// TestCloseHangs: Close returns although ZooKeeper does not answer.
func TestCloseHangs(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	far, link := s.far(t)
	lease := locktest.MustAcquire(t, far.Acquire, "r")
	link.Freeze()
	start := time.Now()
	if err := far.Close(); err == nil || !strings.Contains(err.Error(), "close session") {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("Close took %v", took)
	}
	if err := lease.Err(); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Err: %v", err)
	}
	link.Thaw()
}

// TestReleaseHangs: Release returns within its own limit, and the lock is
// released later.
func TestReleaseHangs(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	far, link := s.far(t)
	lease := locktest.MustAcquire(t, far.Acquire, "r")
	link.Freeze()
	start := time.Now()
	if err := lease.Release(locktest.Context(t)); err == nil {
		t.Error("Release at a server that hangs returned nil")
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("Release took %v", took)
	}
	link.Thaw()
	s.awaitEntries(t, "r", 0)
}

// TestUnreachable: no ZooKeeper there is an error that says so, not a hang; and
// with a ctx that ends sooner, sooner.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	link := newLink(t, s.Addr())
	link.Refuse(true)
	locker := s.locker(t, longTTL, link.Addr())
	if _, err := locker.Acquire(locktest.Context(t), "r"); err == nil || !strings.Contains(err.Error(), link.Addr()) {
		t.Errorf("Acquire: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := locker.TryAcquire(ctx, "r"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("TryAcquire: %v", err)
	}
	link.Refuse(false)
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
}

// TestCloseUnreachable: nothing is left running either.
func TestCloseUnreachable(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	far, link := s.far(t)
	lease := locktest.MustAcquire(t, far.Acquire, "r")
	link.Refuse(true)
	if err := far.Close(); err == nil {
		t.Error("Close without a server returned nil")
	}
	locktest.WantLost(t, lease)
}
