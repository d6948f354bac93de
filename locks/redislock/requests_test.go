package redislock_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
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
	count := counter{Link: newLink(t, s.Addr())}
	locker := s.locker(t, quiet(), count.Addr())
	near := s.locker(t, quiet(), s.Addr())
	mustRelease(t, mustAcquire(t, near.Acquire, "first")) // Redis has the script now

	for range 2 {
		for name, acquire := range map[string]acquireFunc{
			"EVALSHA acquire": locker.Acquire, "EVALSHA try": locker.TryAcquireShared,
		} {
			lease := mustAcquire(t, acquire, "r")
			count.want(t, "acquire", name)
			mustRelease(t, lease)
			count.want(t, "release", "EVALSHA leave")
		}
	}
	held := mustAcquire(t, near.Acquire, "r")
	if _, err := locker.TryAcquire(testContext(t), "r"); !errors.Is(err, locks.ErrHeld) {
		t.Fatalf("TryAcquire of a held lock: %v", err)
	}
	count.want(t, "try of a held lock", "EVALSHA try")
	mustRelease(t, held)
}

// TestRequestsPerGrant: however many wait, a grant costs the same (no herd):
// two requests, since a waiter is told its number when it is woken.
func TestRequestsPerGrant(t *testing.T) {
	t.Parallel()
	for _, waiters := range []int{2, 10, 50} {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			t.Parallel()
			s := newService(t, testenv.Redis(t))
			count := counter{Link: newLink(t, s.Addr())}
			var lockers []*redislock.Locker
			for range min(waiters, 10) {
				locker := s.locker(t, quiet(), count.Addr())
				s.subscribe(t, locker)
				lockers = append(lockers, locker)
			}
			count.since()
			rounds := max(2, 100/waiters)
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
			if requests, grants := len(count.since()), waiters*rounds; requests != 2*grants {
				t.Errorf("%d requests for %d grants, want 2 for each", requests, grants)
			}
		})
	}
}

// subscribe has a locker wait once, so that it is subscribed to its channel.
func (s *service) subscribe(tb testing.TB, locker *redislock.Locker) {
	tb.Helper()
	resource, before := locks.NewID(), s.subscribers(tb)
	held := mustAcquire(tb, locker.Acquire, resource)
	got := background(testContext(tb), tb, locker.Acquire, resource)
	s.awaitEntries(tb, resource, 2)
	await(tb, func() bool { return s.subscribers(tb) > before })
	mustRelease(tb, held)
	mustRelease(tb, wantGrant(tb, got))
}

// subscribers are the lockers that listen.
func (s *service) subscribers(tb testing.TB) int {
	tb.Helper()
	channels, err := s.client.PubSubChannels(testContext(tb), s.prefix+"wake:*").Result()
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
	count := counter{Link: newLink(t, s.Addr())}
	locker := s.locker(t, redislock.Config{TTL: shortTTL}, count.Addr())
	kept, released := mustAcquire(t, locker.Acquire, "kept"), mustAcquire(t, locker.AcquireShared, "released")
	mustRelease(t, released)
	count.since()
	first := kept.Deadline()
	await(t, func() bool { return time.Now().After(first.Add(shortTTL)) })
	wantHeld(t, kept)
	requests := count.since()
	if n := len(requests); n < 3 || n > 8 {
		t.Errorf("%d requests in twice the TTL: %q", n, requests)
	}
	for _, path := range requests {
		if path != "EVALSHA keep" {
			t.Errorf("request %q", path)
		}
	}
	mustRelease(t, kept)
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
			lease := mustAcquire(t, locker.Acquire, name)
			first := lease.Deadline()
			trouble(link)
			// A first renewal has failed at two thirds of the time.
			await(t, func() bool { return time.Until(first) < shortTTL*2/3 })
			link.Refuse(false)
			link.Thaw()
			await(t, func() bool { return lease.Deadline().After(first) })
			mustRelease(t, lease)
		})
	}
}
