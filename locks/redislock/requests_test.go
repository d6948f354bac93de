package redislock_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

// quiet has no renewal, no repeated attempt and no poll fall into a test that
// counts requests.
func quiet() redislock.Config {
	return redislock.Config{TTL: 5 * time.Minute, FallbackPoll: time.Minute}
}

func TestUncontendedRequests(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	count := locktest.Counter{Link: newLink(t, s.Addr()), Counts: isScript}
	locker := s.locker(t, quiet(), count.Addr())
	near := s.locker(t, quiet(), s.Addr())
	locktest.MustRelease(t, locktest.MustAcquire(t, near.Acquire, "first")) // Redis has the script now

	for range 2 {
		for name, acquire := range map[string]locktest.AcquireFunc{
			"EVALSHA acquire": locker.Acquire, "EVALSHA try": locker.TryAcquireShared,
		} {
			lease := locktest.MustAcquire(t, acquire, "r")
			count.Want(t, "acquire", name)
			locktest.MustRelease(t, lease)
			count.Want(t, "release", "EVALSHA leave")
		}
	}
	held := locktest.MustAcquire(t, near.Acquire, "r")
	if _, err := locker.TryAcquire(locktest.Context(t), "r"); !errors.Is(err, locks.ErrHeld) {
		t.Fatalf("TryAcquire of a held lock: %v", err)
	}
	count.Want(t, "try of a held lock", "EVALSHA try")
	locktest.MustRelease(t, held)
}

// TestRequestsPerGrant: however many wait, a grant costs the same (no herd):
// two requests, since a waiter is told its number when it is woken.
func TestRequestsPerGrant(t *testing.T) {
	t.Parallel()
	for _, waiters := range []int{2, 10, 50} {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			t.Parallel()
			s := newService(t, testenv.Redis(t))
			count := locktest.Counter{Link: newLink(t, s.Addr()), Counts: isScript}
			var lockers []*redislock.Locker
			for range min(waiters, 10) {
				locker := s.locker(t, quiet(), count.Addr())
				s.subscribe(t, locker)
				lockers = append(lockers, locker)
			}
			count.Since()
			rounds := max(2, 100/waiters)
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
			if requests, grants := len(count.Since()), waiters*rounds; requests != 2*grants {
				t.Errorf("%d requests for %d grants, want 2 for each", requests, grants)
			}
		})
	}
}

// subscribe has a locker wait once, so that it is subscribed to its channel.
func (s *service) subscribe(tb testing.TB, locker *redislock.Locker) {
	tb.Helper()
	resource, before := locks.NewID(), s.subscribers(tb)
	held := locktest.MustAcquire(tb, locker.Acquire, resource)
	got := locktest.Background(locktest.Context(tb), tb, locker.Acquire, resource)
	s.awaitEntries(tb, resource, 2)
	locktest.Await(tb, func() bool { return s.subscribers(tb) > before })
	locktest.MustRelease(tb, held)
	locktest.MustRelease(tb, locktest.WantGrant(tb, got))
}

// subscribers are the lockers that listen.
func (s *service) subscribers(tb testing.TB) int {
	tb.Helper()
	channels, err := s.client.PubSubChannels(locktest.Context(tb), s.prefix+"wake:*").Result()
	if err != nil {
		tb.Fatal(err)
	}
	return len(channels)
}

// TestRenewal: what is held is renewed three times in its TTL, also when the
// ctx of the acquisition has ended, and what is released is not.
func TestRenewal(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	count := locktest.Counter{Link: newLink(t, s.Addr()), Counts: isScript}
	locker := s.locker(t, redislock.Config{TTL: shortTTL}, count.Addr())
	kept, released := locktest.MustAcquire(t, locker.Acquire, "kept"), locktest.MustAcquire(t, locker.AcquireShared, "released")
	locktest.MustRelease(t, released)
	count.Since()
	first := kept.Deadline()
	locktest.Await(t, func() bool { return time.Now().After(first.Add(shortTTL)) })
	locktest.WantHeld(t, kept)
	requests := count.Since()
	if n := len(requests); n < 3 || n > 8 {
		t.Errorf("%d requests in twice the TTL: %q", n, requests)
	}
	for _, path := range requests {
		if path != "EVALSHA keep" {
			t.Errorf("request %q", path)
		}
	}
	locktest.MustRelease(t, kept)
}

// TestRenewalSurvives what passes before the deadline: a lost reply, a refused
// connection, a lack of memory (redis/go-redis retries some of it by itself, and
// a renewal that failed once is no loss).
func TestRenewalSurvives(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	for name, trouble := range map[string]func(*testenv.Link){
		"lost reply": func(link *testenv.Link) { link.DropReplyTo(isScript, 1) },
		"refused":    func(link *testenv.Link) { link.Refuse(true) },
		"frozen":     func(link *testenv.Link) { link.Freeze() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link := newLink(t, s.Addr())
			locker := s.locker(t, redislock.Config{TTL: 2 * shortTTL}, link.Addr())
			lease := locktest.MustAcquire(t, locker.Acquire, name)
			first := lease.Deadline()
			trouble(link)
			// A first renewal has failed at two thirds of the time.
			locktest.Await(t, func() bool { return time.Until(first) < shortTTL*2/3 })
			link.Refuse(false)
			link.Thaw()
			locktest.Await(t, func() bool { return lease.Deadline().After(first) })
			locktest.MustRelease(t, lease)
		})
	}
}
