package zklock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
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
	held := mustAcquire(t, holder.Acquire, "r")
	wait := background(testContext(t), t, waiter.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	wait2 := background(testContext(t), t, last.Acquire, "r")
	s.awaitEntries(t, "r", 3)
	leader.Kill(t)
	end := time.Now().Add(20 * time.Second * 2 / 3) // what was promised before is over then
	await(t, func() bool { return held.Err() != nil || held.Deadline().After(end) })
	wantHeld(t, held)
	s.awaitEntries(t, "r", 3)
	if len(wait)+len(wait2) > 0 {
		t.Fatal("a waiter was granted while the lock was held")
	}
	mustRelease(t, held)
	second := wantGrant(t, wait)
	mustRelease(t, second)
	third := wantGrant(t, wait2)
	wantRising(t, held, second, third)
	leader.Restart(t)
	wantHeld(t, third)
	mustRelease(t, third)
	next := mustAcquire(t, open().Acquire, "r")
	wantRising(t, third, next)
	mustRelease(t, next)
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
	first := mustAcquire(t, old.Acquire, "r")
	leader.Freeze(t)
	deadline := first.Deadline() // nothing is answered from here on that moves it
	second := mustAcquire(t, next.Acquire, "r")
	if now := time.Now(); now.Before(deadline) {
		t.Errorf("granted %v before the old holder's deadline", deadline.Sub(now))
	}
	select {
	case <-first.Lost():
	default:
		t.Error("Lost is open while somebody else holds the lock")
	}
	wantLost(t, first)
	wantRising(t, first, second)
	leader.Thaw(t)
	if err := first.Release(testContext(t)); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Release: %v", err)
	}
	wantHeld(t, second)
	mustRelease(t, second)
	third := mustAcquire(t, old.Acquire, "r") // by a member that has found the new leader
	wantRising(t, second, third)
	mustRelease(t, third)
}
