package zklock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

// TestEnsemble has the faults that need several members. They run one after the
// other, on one ensemble.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := testenv.StartZooKeeperEnsemble(t)
	t.Run("leader killed", func(t *testing.T) { testLeaderKilled(t, e) })
	t.Run("leader frozen", func(t *testing.T) { testLeaderFrozen(t, e) })
}

// testLeaderKilled: whoever reaches other members keeps the lock, or the place,
// over an election, and its event.
func testLeaderKilled(t *testing.T, e *testenv.ZooKeeperEnsemble) {
	t.Helper()
	leader, others := e.Leader(t)
	s := newService(t, others[0])
	open := func() *zklock.Locker { return s.locker(t, 20*time.Second, e.Addrs()...) }
	holder, waiter, last := open(), open(), open()
	held := locktest.MustAcquire(t, holder.Acquire, "r")
	wait := locktest.Background(locktest.Context(t), t, waiter.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	wait2 := locktest.Background(locktest.Context(t), t, last.Acquire, "r")
	s.awaitEntries(t, "r", 3)
	leader.Kill(t)
	end := time.Now().Add(20 * time.Second * 2 / 3) // what was promised before is over then
	locktest.Await(t, func() bool { return held.Err() != nil || held.Deadline().After(end) })
	locktest.WantHeld(t, held)
	s.awaitEntries(t, "r", 3)
	if len(wait)+len(wait2) > 0 {
		t.Fatal("a waiter was granted while the lock was held")
	}
	locktest.MustRelease(t, held)
	second := locktest.WantGrant(t, wait)
	locktest.MustRelease(t, second)
	third := locktest.WantGrant(t, wait2)
	locktest.WantRising(t, held, second, third)
	leader.Restart(t)
	locktest.WantHeld(t, third)
	locktest.MustRelease(t, third)
	next := locktest.MustAcquire(t, open().Acquire, "r")
	locktest.WantRising(t, third, next)
	locktest.MustRelease(t, next)
}

// testLeaderFrozen: the holder reaches only the leader, which hangs with its
// connections open while the others elect another. The next one is granted the
// lock when the session has expired, and the holder knows before.
func testLeaderFrozen(t *testing.T, e *testenv.ZooKeeperEnsemble) {
	t.Helper()
	leader, others := e.Leader(t)
	s := newService(t, others[0])
	old := s.locker(t, shortTTL, leader.Addr())
	next := s.locker(t, longTTL, others[0].Addr(), others[1].Addr())
	// To open a session while there is no leader takes as long as the election,
	// for which an acquisition would not wait.
	locktest.MustRelease(t, locktest.MustAcquire(t, next.Acquire, "first"))
	first := locktest.MustAcquire(t, old.Acquire, "r")
	leader.Freeze(t)
	deadline := first.Deadline() // nothing is answered from here on that moves it
	second := locktest.MustAcquire(t, next.Acquire, "r")
	if now := time.Now(); now.Before(deadline) {
		t.Errorf("granted %v before the old holder's deadline", deadline.Sub(now))
	}
	select {
	case <-first.Lost():
	default:
		t.Error("Lost is open while somebody else holds the lock")
	}
	locktest.WantLost(t, first)
	locktest.WantRising(t, first, second)
	leader.Thaw(t)
	if err := first.Release(locktest.Context(t)); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Release: %v", err)
	}
	locktest.WantHeld(t, second)
	locktest.MustRelease(t, second)
	third := locktest.MustAcquire(t, old.Acquire, "r") // by a member that has found the new leader
	locktest.WantRising(t, second, third)
	locktest.MustRelease(t, third)
}
