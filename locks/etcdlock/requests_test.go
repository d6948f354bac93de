package etcdlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
)

// quiet is a TTL with which no renewal and no repeated attempt falls into a
// test that counts requests.
const quiet = 5 * time.Minute

type acquireFunc func(ctx context.Context, resource string) (locks.Lease, error)

func testContext(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

func mustAcquire(tb testing.TB, acquire acquireFunc, resource string) locks.Lease {
	tb.Helper()
	lease, err := acquire(testContext(tb), resource)
	if err != nil {
		tb.Fatal(err)
	}
	return lease
}

func mustRelease(tb testing.TB, lease locks.Lease) {
	tb.Helper()
	if err := lease.Release(testContext(tb)); err != nil {
		tb.Fatal(err)
	}
}

// counter counts the requests for locks that pass a link.
type counter struct {
	*testenv.Link
	seen int
}

// since returns the requests for locks since the last call.
func (c *counter) since() []string {
	paths := c.Paths()
	fresh := slices.DeleteFunc(slices.Clone(paths[c.seen:]), func(path string) bool { return !isKV(path) })
	c.seen = len(paths)
	return fresh
}

func (c *counter) want(tb testing.TB, what string, n int) {
	tb.Helper()
	if got := c.since(); len(got) != n {
		tb.Errorf("%s: %d requests %q, want %d", what, len(got), got, n)
	}
}

func TestUncontendedRequests(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	count := counter{Link: newLink(t, s.Addr())}
	locker := s.locker(t, etcdlock.Config{TTL: quiet}, count.Addr())
	near := s.locker(t, etcdlock.Config{TTL: quiet}, s.Addr())

	mustRelease(t, mustAcquire(t, near.Acquire, "makes the issuer"))
	mustRelease(t, mustAcquire(t, locker.Acquire, "opens the session"))
	if n := count.Requests(); n != 3 {
		t.Errorf("first acquisition and release: %d requests %q, want 3", n, count.Paths())
	}
	count.since()
	for _, acquire := range []acquireFunc{locker.Acquire, locker.AcquireShared, locker.TryAcquire, locker.TryAcquireShared} {
		lease := mustAcquire(t, acquire, "r")
		count.want(t, "acquire", 1)
		mustRelease(t, lease)
		count.want(t, "release", 1)
	}

	held := mustAcquire(t, near.Acquire, "r")
	if _, err := locker.TryAcquire(testContext(t), "r"); !errors.Is(err, locks.ErrHeld) {
		t.Fatalf("TryAcquire of a held lock: %v", err)
	}
	count.want(t, "try of a held lock", 1)
	mustRelease(t, held)
}

// TestRequestsPerGrant: however many wait, a grant costs the same (no herd).
func TestRequestsPerGrant(t *testing.T) {
	t.Parallel()
	const limit = 5
	for _, waiters := range []int{2, 10, 50} {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			t.Parallel()
			s := newService(t, testenv.Etcd(t))
			count := counter{Link: newLink(t, s.Addr())}
			var lockers []*etcdlock.Locker
			for range min(waiters, 10) {
				locker := s.locker(t, etcdlock.Config{TTL: quiet}, count.Addr())
				mustRelease(t, mustAcquire(t, locker.Acquire, "first"))
				lockers = append(lockers, locker)
			}
			count.since()
			rounds := max(2, 60/waiters)
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
			requests, grants := len(count.since()), waiters*rounds
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
	first := mustAcquire(t, locker.Acquire, "r")
	mustRelease(t, first)
	for range 20 {
		lease := mustAcquire(t, locker.TryAcquire, "r")
		if _, err := locker.TryAcquireShared(testContext(t), "r"); !errors.Is(err, locks.ErrHeld) {
			t.Fatalf("TryAcquireShared of a held lock: %v", err)
		}
		mustRelease(t, lease)
		mustRelease(t, mustAcquire(t, locker.AcquireShared, "r"))
	}
	names := map[string]bool{}
	watch, stop := context.WithCancel(testContext(t))
	defer stop()
	last := mustAcquire(t, locker.Acquire, "last").Token().Number
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
