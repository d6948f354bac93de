package zklock_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

func TestUncontendedRequests(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	count := counter{Link: newLink(t, s.Addr())}
	locker, near := s.locker(t, longTTL, count.Addr()), s.near(t)

	mustRelease(t, mustAcquire(t, near.Acquire, "r")) // makes the directories
	mustRelease(t, mustAcquire(t, locker.Acquire, "r"))
	count.want(t, "first acquisition and release", "getChildren2", "multi", "getChildren2", "delete")
	await(t, func() bool { // until the session is old enough to watch the issuer
		mustRelease(t, mustAcquire(t, locker.Acquire, "r"))
		return len(count.since()) == 2
	})
	for _, acquire := range []acquireFunc{locker.Acquire, locker.AcquireShared} {
		lease := mustAcquire(t, acquire, "r")
		count.want(t, "acquire", "multi")
		mustRelease(t, lease)
		count.want(t, "release", "delete")
	}
	for _, try := range []acquireFunc{locker.TryAcquire, locker.TryAcquireShared} {
		lease := mustAcquire(t, try, "r")
		count.want(t, "try", "getChildren2", "multi")
		mustRelease(t, lease)
		count.want(t, "release", "delete")
	}

	reader := mustAcquire(t, near.AcquireShared, "r")
	second := mustAcquire(t, locker.AcquireShared, "r")
	count.want(t, "second reader", "multi", "getChildren2")
	mustRelease(t, second)
	count.want(t, "release", "delete")
	if _, err := locker.TryAcquire(testContext(t), "r"); !errors.Is(err, locks.ErrHeld) {
		t.Fatalf("TryAcquire of a held lock: %v", err)
	}
	count.want(t, "try of a held lock", "getChildren2")
	mustRelease(t, reader)
}

// contend has waiters on up to ten sessions take the lock in turn, and returns
// how many requests a grant cost.
func contend(t *testing.T, s *service, waiters, rounds int) float64 {
	t.Helper()
	count := counter{Link: newLink(t, s.Addr())}
	var lockers []*zklock.Locker
	for range min(waiters, 10) {
		locker := s.locker(t, longTTL, count.Addr())
		mustRelease(t, mustAcquire(t, locker.Acquire, "first"))
		lockers = append(lockers, locker)
	}
	count.since()
	var wg sync.WaitGroup
	for i := range waiters {
		locker := lockers[i%len(lockers)]
		wg.Go(func() {
			for range rounds {
				lease, err := locker.Acquire(testContext(t), "r")
				if err != nil {
					t.Error(err)
					return
				}
				if err := lease.Release(testContext(t)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	perGrant := float64(len(count.since())) / float64(waiters*rounds)
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
	count := counter{Link: newLink(t, s.Addr())}
	locker := s.locker(t, time.Second, count.Addr())
	mustRelease(t, mustAcquire(t, locker.Acquire, "r"))
	await(t, func() bool {
		paths := count.Paths()
		return paths[len(paths)-1] == "close"
	})
	mustRelease(t, mustAcquire(t, locker.Acquire, "r"))
}
