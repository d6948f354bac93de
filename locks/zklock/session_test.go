package zklock_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

// TestSessionExpires: ZooKeeper ends the session of a holder, and of a waiter.
func TestSessionExpires(t *testing.T) {
	t.Parallel()
	t.Run("while holding", func(t *testing.T) {
		t.Parallel()
		s := newService(t, testenv.ZooKeeper(t))
		locker, link := s.far(t)
		other := s.near(t)
		lease := mustAcquire(t, locker.Acquire, "r")
		wait := background(testContext(t), t, other.Acquire, "r")
		s.awaitEntries(t, "r", 2)
		held := mustAcquire(t, locker.AcquireShared, "q")
		s.expire(t, link, "q")
		wantLost(t, lease)
		wantLost(t, held)
		if lease.Deadline().Before(time.Now()) {
			t.Error("it took the deadline to notice")
		}
		next := wantGrant(t, wait)
		wantRising(t, lease, next)
		if err := lease.Release(testContext(t)); !errors.Is(err, locks.ErrLost) {
			t.Errorf("Release of a lost lease: %v", err)
		}
		mustRelease(t, next)
		again := mustAcquire(t, locker.Acquire, "r") // on a new session
		wantRising(t, next, again)
		mustRelease(t, again)
	})
	t.Run("while waiting", func(t *testing.T) {
		t.Parallel()
		s := newService(t, testenv.ZooKeeper(t))
		locker, link := s.far(t)
		held := mustAcquire(t, s.near(t).Acquire, "r")
		wait := background(testContext(t), t, locker.Acquire, "r")
		// It knows its place: it watches the one before it.
		await(t, func() bool { return slices.Contains(link.Paths(), "getData") })
		s.expire(t, link, "r")
		if g := <-wait; !errors.Is(g.err, locks.ErrLost) {
			t.Fatalf("Acquire: %v, %v", g.lease, g.err)
		}
		wantHeld(t, held)
		s.awaitEntries(t, "r", 1)
		mustRelease(t, held)
	})
}

// TestRestart: a server that crashes and comes back under its holders takes no
// lock from them, and no event from those that wait.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartZooKeeper(t, testenv.ZooKeeperConfig{}))
	locker, other := s.near(t), s.near(t)
	lease, broken := mustAcquire(t, locker.Acquire, "r"), mustAcquire(t, locker.Acquire, "q")
	wait := background(testContext(t), t, other.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	deadline := lease.Deadline()
	s.Restart(t)
	await(t, func() bool { return lease.Deadline().After(deadline) })
	wantHeld(t, lease)
	s.Break(t, "q", broken.Token())
	wantLost(t, broken)
	mustRelease(t, lease)
	next := wantGrant(t, wait)
	wantRising(t, lease, next)
	mustRelease(t, next)
}

// TestFrozenServer: the server hangs for longer than the session lives.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartZooKeeper(t, testenv.ZooKeeperConfig{}))
	locker := s.locker(t, shortTTL, s.Addr())
	lease := mustAcquire(t, locker.Acquire, "r")
	s.server.Freeze(t)
	deadline := lease.Deadline()
	wantLost(t, lease)
	if late := time.Since(deadline); late < 0 || late > 2*time.Second {
		t.Errorf("lost %v after its deadline", late)
	}
	s.server.Thaw(t)
	next := mustAcquire(t, s.near(t).Acquire, "r")
	wantRising(t, lease, next)
	mustRelease(t, next)
	mustRelease(t, mustAcquire(t, locker.Acquire, "r"))
}

// TestCutWhileWaiting: a connection that ends costs neither the place in the
// queue nor the event that it is one's turn, also if that comes meanwhile.
func TestCutWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, meanwhile := range []bool{false, true} {
		s := newService(t, testenv.ZooKeeper(t))
		far, link := s.far(t)
		held := mustAcquire(t, s.near(t).Acquire, "r")
		wait := background(testContext(t), t, far.Acquire, "r")
		// The second one is that of its own node, long after the first.
		await(t, func() bool { return count(link.Paths(), "getData") == 2 })
		link.Refuse(true)
		if meanwhile {
			mustRelease(t, held)
		}
		link.Refuse(false)
		await(t, func() bool { return slices.Contains(link.Paths(), "setWatches") || len(wait) > 0 })
		if !meanwhile {
			s.awaitEntries(t, "r", 2)
			mustRelease(t, held)
		}
		next := wantGrant(t, wait)
		wantRising(t, held, next)
		mustRelease(t, next)
		s.awaitEntries(t, "r", 0)
	}
}

func count(paths []string, path string) (n int) {
	for _, p := range paths {
		if p == path {
			n++
		}
	}
	return n
}

// TestHungMember: a member of the ensemble that hangs with its connections open
// is left in time to keep the locks.
func TestHungMember(t *testing.T) {
	t.Parallel()
	const ttl = 2 * shortTTL
	s := newService(t, testenv.ZooKeeper(t))
	links := []*testenv.Link{newLink(t, s.Addr()), newLink(t, s.Addr())}
	locker := s.locker(t, ttl, links[0].Addr(), links[1].Addr())
	lease := mustAcquire(t, locker.Acquire, "r")
	hung, other := links[0], links[1]
	if other.Requests() > 0 {
		hung, other = other, hung
	}
	hung.Freeze()
	deadline := lease.Deadline()
	await(t, func() bool { return lease.Err() != nil || lease.Deadline().Sub(deadline) > ttl/4 })
	wantHeld(t, lease)
	if other.Requests() == 0 {
		t.Error("the other member was not used")
	}
	mustRelease(t, lease)
}
