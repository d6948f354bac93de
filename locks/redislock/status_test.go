package redislock_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

func mustStatus(tb testing.TB, locker locks.StatusLocker, resource string) locks.Status {
	tb.Helper()
	status, err := locker.Status(locktest.Context(tb), resource)
	if err != nil {
		tb.Fatal(err)
	}
	return status
}

// dump is everything below the prefix of s, and when it ends.
func (s *service) dump(tb testing.TB) map[string]string {
	tb.Helper()
	ctx, all := locktest.Context(tb), map[string]string{}
	keys, err := s.client.Keys(ctx, s.prefix+"*").Result()
	if err != nil {
		tb.Fatal(err)
	}
	for _, key := range keys {
		ends, err := s.client.PExpireTime(ctx, key).Result()
		if err != nil {
			tb.Fatal(err)
		}
		text, err := s.client.Dump(ctx, key).Result()
		if err != nil {
			tb.Fatal(err)
		}
		all[key] = text + ends.String()
	}
	return all
}

func TestStatus(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	a, b := s.locker(t, redislock.Config{TTL: longTTL}, s.Addr()), s.locker(t, redislock.Config{TTL: longTTL}, s.Addr())
	if got := mustStatus(t, a, "r"); got.Resource != "r" || got.Issuer != issuer || len(got.Holders)+len(got.Waiters) != 0 {
		t.Errorf("status of what nobody has ever locked: %+v", got)
	}
	if all := s.dump(t); len(all) != 0 {
		t.Fatalf("to read the status made %v", all)
	}
	first, second := locktest.MustAcquire(t, a.AcquireShared, "r"), locktest.MustAcquire(t, b.AcquireShared, "r")
	writer := locktest.Background(locktest.Context(t), t, a.Acquire, "r")
	s.awaitEntries(t, "r", 3)
	reader := locktest.Background(locktest.Context(t), t, b.AcquireShared, "r")
	s.awaitEntries(t, "r", 4)
	below := locktest.MustAcquire(t, a.Acquire, "r/eu")

	got := mustStatus(t, a, "r")
	if len(got.Holders) != 2 || len(got.Waiters) != 2 || got.Issuer != issuer {
		t.Fatalf("two readers hold, two wait: %+v", got)
	}
	for i, lease := range []locks.Lease{first, second} {
		if token, ok := got.Holders[i].Token("r"); !ok || token != lease.Token() {
			t.Errorf("token of holder %d: %v, %v, want %v", i, token, ok, lease.Token())
		}
	}
	for i, mode := range []guard.Mode{guard.Exclusive, guard.Shared} {
		w := got.Waiters[i]
		if _, ok := w.Token("r"); w.Mode != mode || w.Number != 0 || w.Holder == "" || w.Issuer != "" || ok {
			t.Errorf("waiter %d: %+v, want %v", i, w, mode)
		}
	}
	for _, p := range append(got.Holders, got.Waiters...) {
		if !p.Timed || p.Left <= 0 || p.Left > longTTL || p.Session != "" || p.Expired() {
			t.Errorf("place %+v does not have up to %v", p, longTTL)
		}
	}
	for _, lease := range []locks.Lease{first, second, below} {
		locktest.MustRelease(t, lease)
	}
	locktest.MustRelease(t, locktest.WantGrant(t, writer))
	locktest.MustRelease(t, locktest.WantGrant(t, reader))
	if _, err := a.Status(locktest.Context(t), ""); !errors.Is(err, guard.ErrMalformed) {
		t.Errorf("status of no name: %v", err)
	}
}

// TestStatusOfExpired: what is over is told as such, and left to the next
// request for the lock.
func TestStatusOfExpired(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	near, link := s.locker(t, redislock.Config{TTL: longTTL}, s.Addr()), newLink(t, s.Addr())
	lease := locktest.MustAcquire(t, s.locker(t, redislock.Config{TTL: longTTL}, link.Addr()).Acquire, "r")
	got := locktest.Background(locktest.Context(t), t, s.locker(t, redislock.Config{TTL: longTTL}, link.Addr()).Acquire, "r")
	s.awaitEntries(t, "r", 2)
	link.Refuse(true) // both are silent from here on
	member := s.members(t, "r")[0]
	if err := s.client.ZAdd(locktest.Context(t), s.key("r", "until"), goredis.Z{Score: 1, Member: member}).Err(); err != nil {
		t.Fatal(err)
	}
	before := s.dump(t)
	status := mustStatus(t, near, "r")
	if after := s.dump(t); !maps.Equal(before, after) {
		t.Errorf("to read the status changed %v to %v", before, after)
	}
	if len(status.Holders) != 1 || !status.Holders[0].Expired() || status.Holders[0].Number != lease.Token().Number {
		t.Errorf("holders %+v, want one who has expired", status.Holders)
	}
	if len(status.Waiters) != 1 || status.Waiters[0].Expired() {
		t.Errorf("waiters %+v, want one who has not", status.Waiters)
	}
	// The next request, of whoever it is, ends the one and grants to the other.
	if _, err := near.TryAcquire(locktest.Context(t), "r"); !errors.Is(err, locks.ErrHeld) {
		t.Errorf("a try: %v", err)
	}
	if now := mustStatus(t, near, "r"); len(now.Holders) != 1 || now.Holders[0].Holder != status.Waiters[0].Holder {
		t.Errorf("then %+v", now)
	}
	link.Refuse(false)
	next := locktest.WantGrant(t, got)
	locktest.WantRising(t, lease, next)
	locktest.MustRelease(t, next)
}

// TestStatusPermissions: the documented permissions are enough, and a lack of
// them is an error that says so.
func TestStatusPermissions(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t, testenv.RedisConfig{})
	s := newService(t, redis)
	as := func(name string, rules ...any) *redislock.Locker {
		t.Helper()
		if err := s.client.Do(locktest.Context(t), append([]any{"ACL", "SETUSER", name, "on", ">pw"}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
		client := goredis.NewClient(&goredis.Options{Addr: redis.Addr(), Username: name, Password: "pw"})
		t.Cleanup(func() { client.Close() })
		return newLocker(t, client, redislock.Config{TTL: longTTL})
	}
	full := as("full", "~fence:locks:*", "&fence:locks:*", "+@read", "+@write", "+@scripting", "+time", "+publish", "+subscribe", "+ping", "+info")
	reader := as("reader", "~fence:locks:*", "+@read", "+@scripting", "+time")
	stranger := as("stranger", "~others:*", "+@all")
	lease := locktest.MustAcquire(t, full.Acquire, "r")
	for name, locker := range map[string]*redislock.Locker{"full": full, "reader": reader} {
		if got := mustStatus(t, locker, "r"); len(got.Holders) != 1 || got.Holders[0].Holder != lease.Token().Holder {
			t.Errorf("%s sees %+v", name, got)
		}
	}
	if _, err := stranger.Status(locktest.Context(t), "r"); !goredis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("status for a stranger: %v", err)
	}
	locktest.MustRelease(t, lease)
}

// TestStatusInCluster: a lock of any name is found on its node.
func TestStatusInCluster(t *testing.T) {
	t.Parallel()
	var addrs []string
	for _, node := range testenv.StartRedisCluster(t, 3) {
		addrs = append(addrs, node.Addr())
	}
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { client.Close() })
	locker := newLocker(t, client, redislock.Config{TTL: longTTL})
	for _, resource := range braces() {
		lease := locktest.MustAcquire(t, locker.Acquire, resource)
		got := mustStatus(t, locker, resource)
		if len(got.Holders) != 1 {
			t.Fatalf("status of %q: %+v", resource, got)
		}
		if token, ok := got.Holders[0].Token(resource); !ok || token != lease.Token() {
			t.Errorf("token %v, %v, want %v", token, ok, lease.Token())
		}
		locktest.MustRelease(t, lease)
	}
}

// TestStatusOfAHungServer ends with its ctx.
func TestStatusOfAHungServer(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	link := newLink(t, s.Addr())
	client := goredis.NewClient(&goredis.Options{Addr: link.Addr(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	locker := newLocker(t, client, redislock.Config{TTL: longTTL})
	mustStatus(t, locker, "r")
	link.Freeze()
	defer link.Thaw()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := locker.Status(ctx, "r"); err == nil || ctx.Err() == nil {
		t.Errorf("status: %v", err)
	}
}
