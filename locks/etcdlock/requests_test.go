package etcdlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

// quiet is a TTL with which no renewal and no repeated attempt falls into a
// test that counts requests.
const quiet = 5 * time.Minute

// counter counts the requests for locks that pass a link.
type counter struct{ *locktest.Counter }

func newCounter(tb testing.TB, target string) counter {
	tb.Helper()
	return counter{&locktest.Counter{Link: newLink(tb, target), Counts: isKV}}
}

func (c counter) want(tb testing.TB, what string, n int) {
	tb.Helper()
	if got := c.Since(); len(got) != n {
		tb.Errorf("%s: %d requests %q, want %d", what, len(got), got, n)
	}
}

func TestUncontendedRequests(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	count := newCounter(t, s.Addr())
	locker := s.locker(t, etcdlock.Config{TTL: quiet}, count.Addr())
	near := s.locker(t, etcdlock.Config{TTL: quiet}, s.Addr())

	locktest.MustRelease(t, locktest.MustAcquire(t, near.Acquire, "makes the issuer"))
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "opens the session"))
	if n := count.Requests(); n != 3 {
		t.Errorf("first acquisition and release: %d requests %q, want 3", n, count.Paths())
	}
	count.Since()
	for _, acquire := range []locktest.AcquireFunc{locker.Acquire, locker.AcquireShared, locker.TryAcquire, locker.TryAcquireShared} {
		lease := locktest.MustAcquire(t, acquire, "r")
		count.want(t, "acquire", 1)
		locktest.MustRelease(t, lease)
		count.want(t, "release", 1)
	}

	held := locktest.MustAcquire(t, near.Acquire, "r")
	if _, err := locker.TryAcquire(locktest.Context(t), "r"); !errors.Is(err, locks.ErrHeld) {
		t.Fatalf("TryAcquire of a held lock: %v", err)
	}
	count.want(t, "try of a held lock", 1)
	locktest.MustRelease(t, held)
}

// TestRequestsPerGrant: however many wait, a grant costs the same (no herd),
// whatever is sent to watch counted in. Each waiter comes to wait behind the same
// key again and again, and finds it watched.
func TestRequestsPerGrant(t *testing.T) {
	t.Parallel()
	const limit = 4
	for _, waiters := range []int{2, 10, 50} {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			t.Parallel()
			s := newService(t, testenv.Etcd(t))
			var count traffic
			var lockers []*etcdlock.Locker
			for range min(waiters, 10) {
				locker := s.countedLocker(t, &count, quiet, s.Addr())
				locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "first"))
				lockers = append(lockers, locker)
			}
			before := count.sent.Load()
			rounds := 20
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
			requests, grants := int(count.sent.Load()-before), waiters*rounds
			t.Logf("%.2f requests per grant", float64(requests)/float64(grants))
			if requests > limit*grants {
				t.Errorf("%d requests for %d grants, want at most %d for each", requests, grants, limit)
			}
		})
	}
}

// TestKeysAreReused: etcd's index keeps the name of every key until it is
// compacted, so that a name for each acquisition would make each look at a
// queue slower than the one before.
func TestKeysAreReused(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	first := locktest.MustAcquire(t, locker.Acquire, "r")
	locktest.MustRelease(t, first)
	for range 20 {
		lease := locktest.MustAcquire(t, locker.TryAcquire, "r")
		if _, err := locker.TryAcquireShared(locktest.Context(t), "r"); !errors.Is(err, locks.ErrHeld) {
			t.Fatalf("TryAcquireShared of a held lock: %v", err)
		}
		locktest.MustRelease(t, lease)
		locktest.MustRelease(t, locktest.MustAcquire(t, locker.AcquireShared, "r"))
	}
	names := map[string]bool{}
	watch, stop := context.WithCancel(locktest.Context(t))
	defer stop()
	last := locktest.MustAcquire(t, locker.Acquire, "last").Token().Number
	for answer := range s.client.Watch(watch, s.prefix, clientv3.WithPrefix(), clientv3.WithRev(first.Token().Number)) {
		for _, event := range answer.Events {
			names[string(event.Kv.Key)] = true
		}
		if answer.Header.Revision >= last {
			break
		}
	}
	if len(names) > 4 { // issuer, a writer's, a reader's, and that of "last"
		t.Errorf("%d names of keys after 41 acquisitions: %v", len(names), names)
	}
}
