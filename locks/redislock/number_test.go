package redislock_test

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

// setNumber plants the number that was granted last.
func (s *service) setNumber(tb testing.TB, resource string, number int64) {
	tb.Helper()
	if err := s.client.Set(locktest.Context(tb), s.key(resource, "number"), number, 0).Err(); err != nil {
		tb.Fatal(err)
	}
}

// TestNumbersAboveDoubles: a script's numbers are doubles, which repeat above
// 2^53.
func TestNumbersAboveDoubles(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	locker := s.locker(t, redislock.Config{TTL: longTTL}, s.Addr())
	for _, last := range []int64{1<<53 - 2, 1<<53 + 1, 1<<62 + 1, math.MaxInt64 - 5} {
		resource := strconv.FormatInt(last, 10)
		s.setNumber(t, resource, last)
		for i := range int64(4) {
			lease := locktest.MustAcquire(t, locker.Acquire, resource)
			if got := lease.Token().Number; got != last+1+i {
				t.Errorf("grant %d after %d has number %d", i, last, got)
			}
			locktest.MustRelease(t, lease)
		}
	}
}

// TestNumbersEnd: after the last number there is an error, and no lock.
func TestNumbersEnd(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	locker := s.locker(t, redislock.Config{TTL: longTTL}, s.Addr())
	s.setNumber(t, "r", math.MaxInt64)
	lease, err := locker.TryAcquire(locktest.Context(t), "r")
	if lease != nil || err == nil || !strings.Contains(err.Error(), "overflow") {
		t.Errorf("acquire = %v, %v", lease, err)
	}
	s.wantOnlyNumber(t, "r")
}

// TestNumberIsTheTime where none is kept: numbers rise although Redis has
// forgotten the last one.
func TestNumberIsTheTime(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	locker := s.locker(t, redislock.Config{TTL: longTTL}, s.Addr())
	var before locks.Lease
	for range 5 {
		lease := locktest.MustAcquire(t, locker.Acquire, "r")
		now, err := s.client.Time(locktest.Context(t)).Result()
		if err != nil {
			t.Fatal(err)
		}
		if age := now.UnixMicro() - lease.Token().Number; age < 0 || age > locktest.Patience.Microseconds() {
			t.Errorf("number %d is not the time %d", lease.Token().Number, now.UnixMicro())
		}
		if before != nil {
			locktest.WantRising(t, before, lease)
		}
		before = lease
		locktest.MustRelease(t, lease)
		if n := s.client.Del(locktest.Context(t), s.key("r", "number")).Val(); n != 1 {
			t.Errorf("deleted %d numbers", n)
		}
	}
}

// TestNothingIsKeptForEver (25 million counters of Redisson's, #6510): what is
// left of a lock ends by itself, the number a week after the time that it is.
func TestNothingIsKeptForEver(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	locker := s.locker(t, redislock.Config{TTL: longTTL}, s.Addr())
	const week = 7 * 24 * time.Hour
	ahead := time.Now().Add(time.Hour).UnixMicro()
	for resource, last := range map[string]int64{"new": 0, "ahead of the clock": ahead} {
		if last != 0 {
			s.setNumber(t, resource, last)
		}
		lease := locktest.MustAcquire(t, locker.AcquireShared, resource)
		waiting := locktest.Background(locktest.Context(t), t, locker.Acquire, resource)
		s.awaitEntries(t, resource, 2)
		for _, which := range []string{"held", "queue", "until"} {
			if ttl := s.client.PTTL(locktest.Context(t), s.key(resource, which)).Val(); ttl < longTTL/2 || ttl > 2*longTTL {
				t.Errorf("%s of %q ends in %v", which, resource, ttl)
			}
		}
		locktest.MustRelease(t, lease)
		next := locktest.WantGrant(t, waiting)
		if ttl := s.client.PTTL(locktest.Context(t), s.key(resource, "held")).Val(); ttl <= 0 {
			t.Errorf("held of %q, granted by a release, ends in %v", resource, ttl)
		}
		locktest.MustRelease(t, next)
		s.wantOnlyNumber(t, resource)
		least := week - time.Minute
		if last != 0 {
			least += time.Hour
		}
		if ttl := s.client.PTTL(locktest.Context(t), s.key(resource, "number")).Val(); ttl < least || ttl > least+time.Hour {
			t.Errorf("number of %q ends in %v", resource, ttl)
		}
	}
}

// wantOnlyNumber checks that nothing else is left of a lock.
func (s *service) wantOnlyNumber(tb testing.TB, resource string) {
	tb.Helper()
	keys, err := s.client.Keys(locktest.Context(tb), s.prefix+"{"+locks.Segment(resource)+"}:*").Result()
	if err != nil || len(keys) != 1 || keys[0] != s.key(resource, "number") {
		tb.Errorf("keys %q, %v", keys, err)
	}
}

// TestAcquireAbove: the number is above the floor, and so are all later ones,
// whoever waits and whoever grants.
func TestAcquireAbove(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	locker := s.locker(t, redislock.Config{TTL: longTTL}, s.Addr())
	floor := time.Now().Add(24 * time.Hour).UnixMicro()
	held := locktest.MustAcquire(t, locker.AcquireShared, "r")
	waiting := locktest.Background(locktest.Context(t), t, locker.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	above := locktest.Background(locktest.Context(t), t, func(ctx context.Context, r string) (locks.Lease, error) {
		return locker.AcquireSharedAbove(ctx, r, floor)
	}, "r")
	s.awaitEntries(t, "r", 3)
	locktest.MustRelease(t, held)
	first := locktest.WantGrant(t, waiting)
	locktest.MustRelease(t, first)
	second := locktest.WantGrant(t, above)
	locktest.WantRising(t, held, first, second)
	if n := first.Token().Number; n != floor+1 {
		t.Errorf("number %d, want %d", n, floor+1)
	}
	locktest.MustRelease(t, second)

	high, err := locker.AcquireAbove(locktest.Context(t), "r", math.MaxInt64-2)
	if err != nil || high.Token().Number != math.MaxInt64-1 {
		t.Fatalf("acquire above the last number but one: %v, %v", high, err)
	}
	locktest.MustRelease(t, high)
	for _, floor := range []int64{-1, math.MaxInt64} {
		if lease, err := locker.AcquireAbove(locktest.Context(t), "other", floor); err == nil {
			t.Errorf("floor %d: %v", floor, lease.Token())
		}
	}

	config := redislock.Config{TTL: longTTL, Floor: floor}
	if n := locktest.MustAcquire(t, s.locker(t, config, s.Addr()).TryAcquire, "third").Token().Number; n != floor+1 {
		t.Errorf("number of a locker with a floor: %d, want %d", n, floor+1)
	}
}
