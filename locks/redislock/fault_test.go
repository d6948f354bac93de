package redislock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

// TestLateRequest: a request to acquire that arrives after its acquisition was
// given up makes no lock that nobody holds (I8).
func TestLateRequest(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	locker := s.locker(t, redislock.Config{TTL: longTTL}, s.Addr())
	for op, first := range map[string]string{"bury": "gone", "leave": "gone"} {
		a := redislock.NewAcquisition(locker, op)
		if state, err := a.Ask(locktest.Context(t), op); state != first || err != nil {
			t.Fatalf("%s: %s, %v", op, state, err)
		}
		want := map[string]string{"bury": "dead", "leave": "granted"}[op]
		for _, late := range []string{"acquire", "try"} {
			if state, err := a.Ask(locktest.Context(t), late); state != want || err != nil {
				t.Errorf("%s after %s: %s, %v; want %s", late, op, state, err, want)
			}
		}
	}
	s.wantNoEntries(t, "bury")
	ttl := s.client.PTTL(locktest.Context(t), s.client.Keys(locktest.Context(t), s.key("bury", "grave:*")).Val()[0]).Val()
	if ttl <= 0 || ttl > longTTL {
		t.Errorf("grave ends in %v", ttl)
	}
}

// TestHangingService: what is asked of a Redis that hangs ends in time, and
// nothing is left of it when it runs on.
func TestHangingService(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartRedis(t, testenv.RedisConfig{}))
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr(), ContextTimeoutEnabled: true})
	defer client.Close()
	locker := newLocker(t, client, redislock.Config{TTL: longTTL, Prefix: s.prefix})
	open := s.locker(t, redislock.Config{TTL: 5 * time.Minute}, s.Addr())
	locktest.MustRelease(t, locktest.MustAcquire(t, open.Acquire, "open")) // it has a connection now
	released, closed := locktest.MustAcquire(t, locker.Acquire, "released"), locktest.MustAcquire(t, locker.Acquire, "closed")
	s.redis.Freeze(t)

	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	for resource, locker := range map[string]*redislock.Locker{"closed": locker, "open": open} {
		if lease, err := locker.Acquire(ctx, resource); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("acquire = %v, %v", lease, err)
		}
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("Acquire returned %v after its ctx had ended", took)
	}
	start = time.Now()
	if err := released.Release(ctx); err == nil {
		t.Error("release at a service that hangs returned nil")
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("Release took %v", took)
	}
	start = time.Now()
	if err := locker.Close(); err == nil {
		t.Error("Close at a service that hangs returned nil")
	}
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("Close took %v", took)
	}
	if err := closed.Err(); !errors.Is(err, locks.ErrLost) || !errors.Is(err, locks.ErrClosed) {
		t.Errorf("Err after Close: %v", err)
	}
	// What the closed locker has asked for may yet be done: it ends by its time.
	// The other one gives up what it is given too late.
	s.redis.Thaw(t)
	s.awaitEntries(t, "open", 0)
}

// TestClose gives up what is held and what waits.
func TestClose(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	locker, other := s.locker(t, redislock.Config{TTL: longTTL}, s.Addr()), s.locker(t, redislock.Config{TTL: longTTL}, s.Addr())
	held := locktest.MustAcquire(t, locker.Acquire, "held")
	next := locktest.Background(locktest.Context(t), t, other.Acquire, "held")
	s.awaitEntries(t, "held", 2)
	theirs := locktest.MustAcquire(t, other.Acquire, "theirs")
	waiting := locktest.Background(locktest.Context(t), t, locker.Acquire, "theirs")
	s.awaitEntries(t, "theirs", 2)
	if err := locker.Close(); err != nil {
		t.Fatal(err)
	}
	locktest.WantLost(t, held)
	if err := held.Release(locktest.Context(t)); !errors.Is(err, locks.ErrClosed) {
		t.Errorf("release after Close: %v", err)
	}
	locktest.MustRelease(t, locktest.WantGrant(t, next))
	if g := <-waiting; !errors.Is(g.Err, locks.ErrClosed) {
		t.Errorf("waiter of a closed locker: %v, %v", g.Lease, g.Err)
	}
	s.awaitEntries(t, "theirs", 1)
	locktest.MustRelease(t, theirs)
	if lease, err := locker.Acquire(locktest.Context(t), "r"); !errors.Is(err, locks.ErrClosed) {
		t.Errorf("acquire after Close = %v, %v", lease, err)
	}
	if err := locker.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// TestCloseAfterCancel: who gives up waiting and then closes leaves no place in
// the queue, which would keep out those behind it.
func TestCloseAfterCancel(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	far := newLink(t, s.Addr())
	far.Delay(20 * time.Millisecond)
	long := redislock.Config{TTL: 10 * time.Minute}
	held := locktest.MustAcquire(t, s.locker(t, long, s.Addr()).Acquire, "r")
	for range 5 {
		locker := s.locker(t, long, far.Addr())
		ctx, cancel := context.WithCancel(locktest.Context(t))
		waiting := locktest.Background(ctx, t, locker.Acquire, "r")
		s.awaitEntries(t, "r", 2)
		cancel()
		if g := <-waiting; !errors.Is(g.Err, context.Canceled) {
			t.Errorf("acquire = %v, %v", g.Lease, g.Err)
		}
		if err := locker.Close(); err != nil {
			t.Error(err)
		}
		s.awaitEntries(t, "r", 1)
	}
	locktest.MustRelease(t, held)
}

// TestDeadReader: one that crashed keeps a writer out for its own time only, and
// does not end the others (Redisson #2144).
func TestDeadReader(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	link := newLink(t, s.Addr())
	live, crashing := s.locker(t, redislock.Config{TTL: shortTTL}, s.Addr()), s.locker(t, redislock.Config{TTL: shortTTL}, link.Addr())
	reader, dead := locktest.MustAcquire(t, live.AcquireShared, "r"), locktest.MustAcquire(t, crashing.AcquireShared, "r")
	link.Refuse(true)
	locktest.WantLost(t, dead)
	s.awaitEntries(t, "r", 1)
	locktest.WantHeld(t, reader)
	waiting := locktest.Background(locktest.Context(t), t, live.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	locktest.WantHeld(t, reader)
	locktest.MustRelease(t, reader)
	writer := locktest.WantGrant(t, waiting)
	locktest.WantRising(t, dead, writer)
	locktest.MustRelease(t, writer)
}

// TestDeadWaiter: one that crashed at the head of the queue keeps those behind
// it waiting for its TTL only, although the lock is granted to it.
func TestDeadWaiter(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	link := newLink(t, s.Addr())
	live, crashing := s.locker(t, redislock.Config{TTL: longTTL}, s.Addr()), s.locker(t, redislock.Config{TTL: shortTTL}, link.Addr())
	held := locktest.MustAcquire(t, live.Acquire, "r")
	dead := locktest.Background(locktest.Context(t), t, crashing.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	waiting := locktest.Background(locktest.Context(t), t, live.Acquire, "r")
	s.awaitEntries(t, "r", 3)
	link.Refuse(true)
	locktest.MustRelease(t, held)
	if g := <-dead; !errors.Is(g.Err, locks.ErrLost) {
		t.Errorf("waiter without a service: %v, %v", g.Lease, g.Err)
	}
	next := locktest.WantGrant(t, waiting)
	locktest.WantRising(t, held, next)
	locktest.MustRelease(t, next)
}

// TestLostWakeups (rueidis #602, Redisson #3891): with messages that get lost
// all the time, everybody still gets the lock, at the latest by asking.
func TestLostWakeups(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartRedis(t, testenv.RedisConfig{}))
	stop, killing := make(chan struct{}), sync.WaitGroup{}
	killing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.client.ClientKillByFilter(locktest.Context(t), "TYPE", "pubsub")
			}
		}
	})
	var work sync.WaitGroup
	for range 10 {
		locker := s.locker(t, redislock.Config{TTL: longTTL, FallbackPoll: 50 * time.Millisecond}, s.Addr())
		work.Go(func() {
			for range 5 {
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
	work.Wait()
	close(stop)
	killing.Wait()
}

// TestHead: the first waiter takes over as soon as the holder's time is over,
// not when it asks the next time.
func TestHead(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	link := newLink(t, s.Addr())
	const ttl = 2 * time.Second
	crashing := s.locker(t, redislock.Config{TTL: ttl}, link.Addr())
	dead := locktest.MustAcquire(t, crashing.Acquire, "r")
	link.Refuse(true)
	live := s.locker(t, redislock.Config{TTL: 10 * time.Minute, FallbackPoll: 3 * time.Minute}, s.Addr())
	next := locktest.MustAcquire(t, live.Acquire, "r")
	locktest.WantRising(t, dead, next)
}

// TestMissedWakeups: what was published before a subscription was there, or while
// its connection was broken, is asked for as soon as there is one.
func TestMissedWakeups(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	rare := redislock.Config{TTL: 10 * time.Minute, FallbackPoll: 3 * time.Minute}
	near := s.locker(t, rare, s.Addr())
	link := newLink(t, s.Addr())
	far := s.locker(t, rare, link.Addr())
	locktest.MustRelease(t, locktest.MustAcquire(t, far.Acquire, "r")) // it has a connection now
	for _, trouble := range []func(){
		func() { link.Freeze() }, // most likely before it has subscribed
		func() { link.Refuse(true) },
	} {
		held := locktest.MustAcquire(t, near.Acquire, "r")
		waiting := locktest.Background(locktest.Context(t), t, far.Acquire, "r")
		s.awaitEntries(t, "r", 2)
		trouble()
		locktest.MustRelease(t, held)
		link.Thaw()
		link.Refuse(false)
		locktest.MustRelease(t, locktest.WantGrant(t, waiting))
	}
}

// TestAnotherGrant: a lock that was granted anew, to the late request of an
// acquisition whose first grant was lost, is not the one that is held.
func TestAnotherGrant(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	lease := locktest.MustAcquire(t, s.locker(t, redislock.Config{TTL: shortTTL}, s.Addr()).Acquire, "r")
	member := s.members(t, "r")[0]
	if err := s.client.HSet(locktest.Context(t), s.key("r", "held"), member, lease.Token().Number+1).Err(); err != nil {
		t.Fatal(err)
	}
	locktest.WantLost(t, lease)
	locktest.Await(t, func() bool { return len(s.members(t, "r")) == 0 })
}
