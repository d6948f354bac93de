package zklock_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

func TestUncontendedRequests(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	count := newCounter(t, s.Addr())
	locker, near := s.locker(t, longTTL, count.Addr()), s.near(t)

	locktest.MustRelease(t, locktest.MustAcquire(t, near.Acquire, "r")) // makes the directories
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
	count.Want(t, "first acquisition and release", "getChildren2", "multi", "getChildren2", "delete")
	locktest.Await(t, func() bool { // until the session is old enough to watch the issuer
		locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
		return len(count.Since()) == 2
	})
	for _, acquire := range []locktest.AcquireFunc{locker.Acquire, locker.AcquireShared} {
		lease := locktest.MustAcquire(t, acquire, "r")
		count.Want(t, "acquire", "multi")
		locktest.MustRelease(t, lease)
		count.Want(t, "release", "delete")
	}
	for _, try := range []locktest.AcquireFunc{locker.TryAcquire, locker.TryAcquireShared} {
		lease := locktest.MustAcquire(t, try, "r")
		count.Want(t, "try", "getChildren2", "multi")
		locktest.MustRelease(t, lease)
		count.Want(t, "release", "delete")
	}

	reader := locktest.MustAcquire(t, near.AcquireShared, "r")
	second := locktest.MustAcquire(t, locker.AcquireShared, "r")
	count.Want(t, "second reader", "multi", "getChildren2")
	locktest.MustRelease(t, second)
	count.Want(t, "release", "delete")
	if _, err := locker.TryAcquire(locktest.Context(t), "r"); !errors.Is(err, locks.ErrHeld) {
		t.Fatalf("TryAcquire of a held lock: %v", err)
	}
	count.Want(t, "try of a held lock", "getChildren2")
	locktest.MustRelease(t, reader)
}

// contend has waiters on up to ten sessions take the lock in turn, and returns
// how many requests a grant cost.
func contend(t *testing.T, s *service, waiters, rounds int) float64 {
	t.Helper()
	count := newCounter(t, s.Addr())
	var lockers []*zklock.Locker
	for range min(waiters, 10) {
		locker := s.locker(t, longTTL, count.Addr())
		locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "first"))
		lockers = append(lockers, locker)
	}
	count.Since()
	var wg sync.WaitGroup
	for i := range waiters {
		locker := lockers[i%len(lockers)]
		wg.Go(func() {
			for range rounds {
				lease, err := locker.Acquire(locktest.Context(t), "r")
				if err != nil {
					t.Error(err)
					return
				}
				if err := lease.Release(locktest.Context(t)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	perGrant := float64(len(count.Since())) / float64(waiters*rounds)
	t.Logf("%d waiters: %.2f requests per grant", waiters, perGrant)
	return perGrant
}

// TestRequestsPerGrant: however many wait, a grant costs the same (no herd).
func TestRequestsPerGrant(t *testing.T) {
	t.Parallel()
	for _, waiters := range []int{2, 10, 50} {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			t.Parallel()
			s := newService(t, testenv.ZooKeeper(t))
			// create, look, two watches and delete; one more if the wait is
			// long, and a few for the beginning.
			if n := contend(t, s, waiters, max(2, 60/waiters)); n > 8 {
				t.Errorf("%.2f requests per grant", n)
			}
		})
	}
}

// TestIdleSession: a session that nobody uses ends, and the next acquisition
// opens another.
func TestIdleSession(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	count := newCounter(t, s.Addr())
	locker := s.locker(t, time.Second, count.Addr())
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
	locktest.Await(t, func() bool {
		paths := count.Paths()
		return paths[len(paths)-1] == "close"
	})
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
}
