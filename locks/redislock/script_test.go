package redislock_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

// TestScriptIsFlushed all the time: nobody notices.
func TestScriptIsFlushed(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartRedis(t, testenv.RedisConfig{}))
	lockers := []*redislock.Locker{
		s.locker(t, redislock.Config{TTL: shortTTL}, s.Addr()), s.locker(t, redislock.Config{TTL: shortTTL}, s.Addr()),
	}
	held := locktest.MustAcquire(t, lockers[0].Acquire, "held")
	stop, flushing := make(chan struct{}), sync.WaitGroup{}
	flushing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.client.ScriptFlush(locktest.Context(t))
			}
		}
	})
	var work sync.WaitGroup
	for i := range 6 {
		locker := lockers[i%2]
		work.Go(func() {
			for range 20 {
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
	first := held.Deadline()
	locktest.Await(t, func() bool { return held.Deadline().After(first) }) // renewed meanwhile
	close(stop)
	flushing.Wait()
	locktest.MustRelease(t, held)
}

// TestEviction: a Redis that may evict locks or numbers is refused.
func TestEviction(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartRedis(t, testenv.RedisConfig{}))
	set := func(policy string) {
		t.Helper()
		if err := s.client.ConfigSet(locktest.Context(t), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, policy := range []string{"allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"} {
		set(policy)
		for _, acquire := range []locktest.AcquireFunc{
			s.locker(t, redislock.Config{}, s.Addr()).Acquire, s.locker(t, redislock.Config{}, s.Addr()).TryAcquireShared,
		} {
			lease, err := acquire(locktest.Context(t), "r")
			if lease != nil || err == nil || !strings.Contains(err.Error(), "maxmemory-policy "+policy) {
				t.Errorf("acquire = %v, %v", lease, err)
			}
		}
	}
	s.awaitEntries(t, "r", 0)
	locktest.MustRelease(t, locktest.MustAcquire(t, s.locker(t, redislock.Config{SkipPolicyCheck: true}, s.Addr()).Acquire, "r"))

	// It is asked again when it has changed: after a restart, or a failover.
	set("noeviction")
	locker := s.locker(t, redislock.Config{}, s.Addr())
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
	set("allkeys-lru")
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
	s.client.ScriptFlush(locktest.Context(t))
	if lease, err := locker.Acquire(locktest.Context(t), "r"); err == nil {
		t.Errorf("acquire of a new server = %v", lease.Token())
	}
}

// leastRights are what a user needs, beside keys and channels.
var leastRights = []any{"+@read", "+@write", "+@scripting", "+time", "+publish", "+subscribe", "+ping", "+info"}

// user makes a user for the service's keys and returns a client of it.
func (s *service) user(tb testing.TB, name string, rules ...any) *goredis.Client {
	tb.Helper()
	args := append([]any{"ACL", "SETUSER", name, "on", ">secret", "~" + s.prefix + "*"}, rules...)
	if err := s.client.Do(locktest.Context(tb), args...).Err(); err != nil {
		tb.Fatal(err)
	}
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr(), Username: name, Password: "secret"})
	tb.Cleanup(func() { client.Close() })
	return client
}

// TestPermissions: what the user may not do is said clearly, and what is not
// needed is not missed.
func TestPermissions(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartRedis(t, testenv.RedisConfig{}))
	open := func(name string, rules ...any) *redislock.Locker {
		t.Helper()
		return newLocker(t, s.user(t, name, rules...), redislock.Config{Prefix: s.prefix, FallbackPoll: 50 * time.Millisecond})
	}
	least := slices.Concat(leastRights, []any{"&" + s.prefix + "*"})
	for name, test := range map[string]struct {
		rules []any
		want  string
	}{
		"noeval": {append(least[:len(least):len(least)], "-@scripting"), "evalsha"},
		"noinfo": {append(least[:len(least):len(least)], "-info"), "INFO is not permitted"},
		"nokeys": {append(least[:len(least):len(least)], "resetkeys", "~other"), "keys"},
	} {
		lease, err := open(name, test.rules...).Acquire(locktest.Context(t), "r")
		if lease != nil || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: acquire = %v, %v", name, lease, err)
		}
	}
	s.awaitEntries(t, "r", 0)
	for name, rules := range map[string][]any{
		"least": least, "nochannels": append(least[:len(least):len(least)], "resetchannels"),
	} {
		locker := open(name, rules...)
		held := locktest.MustAcquire(t, locker.Acquire, name)
		waiting := locktest.Background(locktest.Context(t), t, locker.Acquire, name)
		s.awaitEntries(t, name, 2)
		locktest.MustRelease(t, held)
		locktest.MustRelease(t, locktest.WantGrant(t, waiting)) // by asking, if not by a message
	}
}

// TestMemoryIsFull: then nobody new gets a lock, but what is held lives on, also
// beyond its TTL, and can be released and passed on: to a waiter who gets a
// message, and to one that gets none and has to ask.
func TestMemoryIsFull(t *testing.T) {
	t.Parallel()
	for name, channels := range map[string]string{"message": "allchannels", "no message": "resetchannels"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, testenv.StartRedis(t, testenv.RedisConfig{}))
			limit := func(bytes string) {
				t.Helper()
				if err := s.client.ConfigSet(locktest.Context(t), "maxmemory", bytes).Err(); err != nil {
					t.Fatal(err)
				}
			}
			locker := s.locker(t, redislock.Config{TTL: shortTTL}, s.Addr())
			client := s.user(t, "waiter", slices.Concat(leastRights, []any{channels})...)
			other := newLocker(t, client, redislock.Config{TTL: shortTTL, Prefix: s.prefix, FallbackPoll: 50 * time.Millisecond})
			held := locktest.MustAcquire(t, locker.Acquire, "r")
			waiting := locktest.Background(locktest.Context(t), t, other.Acquire, "r")
			s.awaitEntries(t, "r", 2)
			limit("1")
			full := time.Now()
			if lease, err := locker.TryAcquire(locktest.Context(t), "other"); err == nil || !strings.Contains(err.Error(), "OOM") {
				t.Errorf("acquire without memory = %v, %v", lease, err)
			}
			locktest.Await(t, func() bool { return held.Deadline().After(full.Add(2 * shortTTL)) })
			locktest.MustRelease(t, held)
			next := locktest.WantGrant(t, waiting)
			locktest.WantRising(t, held, next)
			first := next.Deadline()
			locktest.Await(t, func() bool { return next.Deadline().After(first) })
			locktest.MustRelease(t, next)
			s.wantNoEntries(t, "r")
			s.wantNoEntries(t, "other")
			limit("0")
			locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "other"))
		})
	}
}

// TestGraveWithoutMemory: an acquisition that was given up stays so (I8).
func TestGraveWithoutMemory(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartRedis(t, testenv.RedisConfig{}))
	a := redislock.NewAcquisition(s.locker(t, redislock.Config{TTL: longTTL}, s.Addr()), "r")
	for _, step := range []struct{ memory, op, want string }{{"1", "bury", "gone"}, {"0", "acquire", "dead"}} {
		if err := s.client.ConfigSet(locktest.Context(t), "maxmemory", step.memory).Err(); err != nil {
			t.Fatal(err)
		}
		if state, err := a.Ask(locktest.Context(t), step.op); state != step.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", step.op, state, err, step.want)
		}
	}
}

func (s *service) wantNoEntries(tb testing.TB, resource string) {
	tb.Helper()
	if members := s.members(tb, resource); len(members) != 0 {
		tb.Errorf("members of %q: %q", resource, members)
	}
}

// TestForeignKeys: where somebody else has put a key in the place of a lock's,
// there is an error, and no lock.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	locker := s.locker(t, redislock.Config{}, s.Addr())
	for _, which := range []string{"number", "held", "queue", "until"} {
		if err := s.client.RPush(locktest.Context(t), s.key(which, which), "what").Err(); err != nil {
			t.Fatal(err)
		}
		lease, err := locker.TryAcquire(locktest.Context(t), which)
		if lease != nil || err == nil || errors.Is(err, locks.ErrHeld) || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("%s: acquire = %v, %v", which, lease, err)
		}
		if keys := s.client.Keys(locktest.Context(t), s.key(which, "held")).Val(); which != "held" && len(keys) != 0 {
			t.Errorf("%s: %q", which, keys)
		}
	}
}
