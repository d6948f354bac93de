package zklock_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

// TestSessionExpires: ZooKeeper ends the session of a holder, and of a waiter.
func TestSessionExpires(t *testing.T) {
	t.Parallel()
	t.Run("while holding", func(t *testing.T) {
		t.Parallel()
		s := newService(t, testenv.ZooKeeper(t))
		locker, link := s.far(t)
		other := s.near(t)
		lease := locktest.MustAcquire(t, locker.Acquire, "r")
		wait := locktest.Background(locktest.Context(t), t, other.Acquire, "r")
		s.awaitEntries(t, "r", 2)
		held := locktest.MustAcquire(t, locker.AcquireShared, "q")
		s.expire(t, link, "q")
		locktest.WantLost(t, lease)
		locktest.WantLost(t, held)
		if lease.Deadline().Before(time.Now()) {
			t.Error("it took the deadline to notice")
		}
		next := locktest.WantGrant(t, wait)
		locktest.WantRising(t, lease, next)
		if err := lease.Release(locktest.Context(t)); !errors.Is(err, locks.ErrLost) {
			t.Errorf("Release of a lost lease: %v", err)
		}
		locktest.MustRelease(t, next)
		again := locktest.MustAcquire(t, locker.Acquire, "r") // on a new session
		locktest.WantRising(t, next, again)
		locktest.MustRelease(t, again)
	})
	t.Run("while waiting", func(t *testing.T) {
		t.Parallel()
		s := newService(t, testenv.ZooKeeper(t))
		locker, link := s.far(t)
		held := locktest.MustAcquire(t, s.near(t).Acquire, "r")
		wait := locktest.Background(locktest.Context(t), t, locker.Acquire, "r")
		// It knows its place: it watches the one before it.
		locktest.Await(t, func() bool { return slices.Contains(link.Paths(), "getData") })
		s.expire(t, link, "r")
		if g := <-wait; !errors.Is(g.Err, locks.ErrLost) {
			t.Fatalf("Acquire: %v, %v", g.Lease, g.Err)
		}
		locktest.WantHeld(t, held)
		s.awaitEntries(t, "r", 1)
		locktest.MustRelease(t, held)
	})
}

// TestRestart: a server that crashes and comes back under its holders takes no
// lock from them, and no event from those that wait.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartZooKeeper(t, testenv.ZooKeeperConfig{}))
	locker, other := s.near(t), s.near(t)
	lease, broken := locktest.MustAcquire(t, locker.Acquire, "r"), locktest.MustAcquire(t, locker.Acquire, "q")
	wait := locktest.Background(locktest.Context(t), t, other.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	deadline := lease.Deadline()
	s.Restart(t)
	locktest.Await(t, func() bool { return lease.Deadline().After(deadline) })
	locktest.WantHeld(t, lease)
	s.Break(t, "q", broken.Token())
	locktest.WantLost(t, broken)
	locktest.MustRelease(t, lease)
	next := locktest.WantGrant(t, wait)
	locktest.WantRising(t, lease, next)
	locktest.MustRelease(t, next)
}

// TestFrozenServer: the server hangs for longer than the session lives.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartZooKeeper(t, testenv.ZooKeeperConfig{}))
	locker := s.locker(t, shortTTL, s.Addr())
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	s.server.Freeze(t)
	deadline := lease.Deadline()
	locktest.WantLost(t, lease)
	if late := time.Since(deadline); late < 0 || late > 2*time.Second {
		t.Errorf("lost %v after its deadline", late)
	}
	s.server.Thaw(t)
	next := locktest.MustAcquire(t, s.near(t).Acquire, "r")
	locktest.WantRising(t, lease, next)
	locktest.MustRelease(t, next)
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
}

// TestCutWhileWaiting: a connection that ends costs neither the place in the
// queue nor the event that it is one's turn, also if that comes meanwhile.
func TestCutWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, meanwhile := range []bool{false, true} {
		s := newService(t, testenv.ZooKeeper(t))
		far, link := s.far(t)
		held := locktest.MustAcquire(t, s.near(t).Acquire, "r")
		wait := locktest.Background(locktest.Context(t), t, far.Acquire, "r")
		// The second one is that of its own node, long after the first.
		locktest.Await(t, func() bool { return count(link.Paths(), "getData") == 2 })
		link.Refuse(true)
		if meanwhile {
			locktest.MustRelease(t, held)
		}
		link.Refuse(false)
		locktest.Await(t, func() bool { return slices.Contains(link.Paths(), "setWatches") || len(wait) > 0 })
		if !meanwhile {
			s.awaitEntries(t, "r", 2)
			locktest.MustRelease(t, held)
		}
		next := locktest.WantGrant(t, wait)
		locktest.WantRising(t, held, next)
		locktest.MustRelease(t, next)
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
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	hung, other := links[0], links[1]
	if other.Requests() > 0 {
		hung, other = other, hung
	}
	hung.Freeze()
	deadline := lease.Deadline()
	locktest.Await(t, func() bool { return lease.Err() != nil || lease.Deadline().Sub(deadline) > ttl/4 })
	locktest.WantHeld(t, lease)
	if other.Requests() == 0 {
		t.Error("the other member was not used")
	}
	locktest.MustRelease(t, lease)
}
