package zklock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

func newSingle(tb testing.TB) *service {
	tb.Helper()
	s := newService(tb, testenv.ZooKeeper(tb))
	s.config.Single = true
	return s
}

func TestSingle(t *testing.T) {
	t.Parallel()
	s := newSingle(t)
	locker, link := s.far(t)
	other := s.near(t)
	first := locktest.MustAcquire(t, locker.Acquire, "r")
	if got := s.czxid(t, s.dir("r")+"/fence-single"); got != first.Token().Number {
		t.Errorf("czxid %d of %v", got, first.Token())
	}
	for _, try := range []locktest.AcquireFunc{locker.TryAcquire, other.TryAcquire} {
		if lease, err := try(locktest.Context(t), "r"); lease != nil || !errors.Is(err, locks.ErrHeld) {
			t.Fatalf("TryAcquire of a held lock: %v, %v", lease, err)
		}
	}
	for _, shared := range []locktest.AcquireFunc{locker.AcquireShared, locker.TryAcquireShared} {
		if lease, err := shared(locktest.Context(t), "q"); lease != nil || !errors.Is(err, guard.ErrUnsupported) {
			t.Fatalf("shared lock: %v, %v", lease, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := other.Acquire(ctx, "r"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Acquire: %v", err)
	}
	wait := locktest.Background(locktest.Context(t), t, other.Acquire, "r")
	locktest.MustRelease(t, first)
	second := locktest.WantGrant(t, wait)
	s.delete(t, s.dir("r")+"/fence-single")
	locktest.WantLost(t, second)
	third := locktest.MustAcquire(t, locker.TryAcquire, "r")
	if err := second.Release(locktest.Context(t)); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Release of a lost lease: %v", err)
	}
	locktest.WantHeld(t, third)
	locktest.MustRelease(t, first) // a second time
	s.expire(t, link, "r")
	locktest.WantLost(t, third)
	fourth := locktest.MustAcquire(t, other.Acquire, "r")
	locktest.WantRising(t, first, second, third, fourth)
	locktest.MustRelease(t, fourth)
	s.awaitEntries(t, "r", 0)
}

// TestSingleLostReply: the node's name says nothing about its owner, what is in
// it does.
func TestSingleLostReply(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		for n := 1; n <= 3; n++ {
			s := newSingle(t)
			far, link := s.far(t)
			held := locktest.MustAcquire(t, s.near(t).Acquire, "r")
			if !waits {
				locktest.MustRelease(t, held)
			}
			link.DropReplyTo(makesLock, n)
			wait := locktest.Background(locktest.Context(t), t, far.Acquire, "r")
			if waits {
				locktest.Await(t, func() bool { return count(link.Paths(), "multi")+count(link.Paths(), "getData") > 4 })
				locktest.MustRelease(t, held)
			}
			lease := locktest.WantGrant(t, wait)
			locktest.WantRising(t, held, lease)
			locktest.MustRelease(t, lease)
			s.awaitEntries(t, "r", 0)
		}
	}
}

// TestSingleLateRelease: a request to release that was carried out, and is
// repeated because its reply is lost, does not remove the node of the next
// holder, which has the same name.
func TestSingleLateRelease(t *testing.T) {
	t.Parallel()
	s := newSingle(t)
	far, link := s.far(t)
	near := s.near(t)
	lease := locktest.MustAcquire(t, far.Acquire, "r")
	wait := locktest.Background(locktest.Context(t), t, near.Acquire, "r")
	link.DropReplyTo(func(path string) bool { return path == "multi" }, 1)
	before := count(link.Paths(), "multi")
	locktest.MustRelease(t, lease)
	next := locktest.WantGrant(t, wait)
	locktest.Await(t, func() bool { return count(link.Paths(), "multi") >= before+2 })
	if n := s.Entries(t, "r"); n != 1 {
		t.Errorf("%d nodes", n)
	}
	locktest.WantHeld(t, next)
	locktest.MustRelease(t, next)
}

// TestSingleDirectoryChanges: somebody writes to the directory while the lock is
// held. It can be released all the same.
func TestSingleDirectoryChanges(t *testing.T) {
	t.Parallel()
	s := newSingle(t)
	locker := s.near(t)
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	if _, err := s.conn.Set(s.dir("r"), []byte("touched"), -1); err != nil {
		t.Fatal(err)
	}
	locktest.MustRelease(t, lease)
	s.awaitEntries(t, "r", 0)
	s.create(t, s.dir("r")+"/lock-", zk.FlagSequence) // another program's
	lease = locktest.MustAcquire(t, locker.TryAcquire, "r")
	locktest.MustRelease(t, lease)
	s.awaitEntries(t, "r", 1)
}

// TestMixed: Lockers that do not see each other's locks refuse to work at the
// same one.
func TestMixed(t *testing.T) {
	t.Parallel()
	s := newSingle(t)
	single := s.near(t)
	queue := newLocker(t, zklock.Dial{Servers: []string{s.Addr()}}, zklock.Config{Root: s.root, TTL: longTTL})
	mixed := func(lease locks.Lease, err error) {
		t.Helper()
		if lease != nil || err == nil || !strings.Contains(err.Error(), "Config.Single") {
			t.Errorf("acquire: %v, %v", lease, err)
		}
	}
	lease := locktest.MustAcquire(t, single.Acquire, "r")
	mixed(queue.Acquire(locktest.Context(t), "r"))
	mixed(queue.TryAcquireShared(locktest.Context(t), "r"))
	s.awaitEntries(t, "r", 1)
	locktest.MustRelease(t, lease)
	lease = locktest.MustAcquire(t, queue.AcquireShared, "r")
	mixed(single.Acquire(locktest.Context(t), "r"))
	s.awaitEntries(t, "r", 1)
	mixed(single.TryAcquire(locktest.Context(t), "r"))
	s.awaitEntries(t, "r", 1)
	locktest.WantHeld(t, lease)
	locktest.MustRelease(t, lease)
}

// TestHerd shows what a lock of a single node costs: each release wakes all who
// wait, so that the requests of a grant grow with them. It is not fair either.
func TestHerd(t *testing.T) {
	t.Parallel()
	few, many := contend(t, newSingle(t), 2, 10), contend(t, newSingle(t), 20, 3)
	if many < 2*few {
		t.Errorf("%.1f requests per grant with 2 waiters, %.1f with 20: no herd?", few, many)
	}
}
