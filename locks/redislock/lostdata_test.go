package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

// resource is one that checks tokens.
type resource struct {
	mark guard.Mark
}

func (r *resource) claim(token guard.Token) error {
	mark, err := guard.Admit(r.mark, token)
	if err == nil {
		r.mark = mark
	}
	return err
}

func (r *resource) mustClaim(tb testing.TB, lease locks.Lease) {
	tb.Helper()
	if err := r.claim(lease.Token()); err != nil {
		tb.Fatalf("current holder was refused: %v", err)
	}
}

// TestDataIsLost while a lock is held and waited for: numbers rise on, the
// holder and the waiter hear of it, and the resource refuses the old token.
func TestDataIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(tb testing.TB, s *service){
		"FLUSHALL": func(tb testing.TB, s *service) {
			if err := s.client.FlushAll(locktest.Context(tb)).Err(); err != nil {
				tb.Fatal(err)
			}
		},
		"restart without persistence": func(tb testing.TB, s *service) { s.Restart(tb) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, testenv.StartRedis(t, testenv.RedisConfig{}))
			var r resource
			locker := s.locker(t, redislock.Config{TTL: shortTTL}, s.Addr())
			var before locks.Lease
			for range 3 {
				lease := locktest.MustAcquire(t, locker.Acquire, "r")
				r.mustClaim(t, lease)
				if before != nil {
					locktest.WantRising(t, before, lease)
					locktest.WantLost(t, before)
					if err := r.claim(before.Token()); !errors.Is(err, guard.ErrStale) {
						t.Errorf("claim of a lost token: %v", err)
					}
				}
				before = lease
				waiting := locktest.Background(locktest.Context(t), t, locker.Acquire, "r")
				s.awaitEntries(t, "r", 2)
				lose(t, s)
				if g := <-waiting; !errors.Is(g.Err, locks.ErrLost) {
					t.Fatalf("waiter got %v, %v", g.Lease, g.Err)
				}
			}
		})
	}
}

// TestFailover promotes a replica that lags behind while a lock is held. Two
// holders there are; their numbers differ, and the resource admits the old one
// no more once it has seen the new one.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := testenv.StartRedis(t, testenv.RedisConfig{})
	link := testenv.NewLink(t, primary.Addr(), testenv.LinkConfig{})
	replica := testenv.StartRedis(t, testenv.RedisConfig{ReplicaOf: link.Addr()})
	testenv.AwaitReplica(t, replica)
	old := newService(t, primary)
	fresh := &service{redis: replica, prefix: old.prefix, client: replica.Client(t)}

	locktest.MustRelease(t, locktest.MustAcquire(t, old.locker(t, redislock.Config{TTL: longTTL}, primary.Addr()).Acquire, "r"))
	locktest.Await(t, func() bool { return fresh.client.Exists(locktest.Context(t), fresh.key("r", "number")).Val() == 1 })
	link.Refuse(true) // what comes now does not reach the replica
	var r resource
	a := locktest.MustAcquire(t, old.locker(t, redislock.Config{TTL: longTTL}, primary.Addr()).Acquire, "r")
	r.mustClaim(t, a)
	if err := fresh.client.Do(locktest.Context(t), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	b := locktest.MustAcquire(t, fresh.locker(t, redislock.Config{TTL: longTTL}, replica.Addr()).Acquire, "r")
	locktest.WantHeld(t, a)
	locktest.WantHeld(t, b)
	locktest.WantRising(t, a, b)
	r.mustClaim(t, b)
	if err := r.claim(a.Token()); !errors.Is(err, guard.ErrStale) {
		t.Errorf("claim of the old holder: %v", err)
	}
}

// TestHeal: numbers that went back, since the number was lost and the clock is
// behind it, or came to two holders, are refused, and healed by asking for more.
func TestHeal(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	locker := s.locker(t, redislock.Config{TTL: longTTL}, s.Addr())
	ahead := time.Now().Add(time.Hour).UnixMicro()
	for name, refused := range map[string]struct {
		mark   guard.Mark
		reason error
	}{
		"stale":     {guard.Mark{Issuer: issuer, Writer: ahead, Holder: "other", Reader: ahead + 5}, guard.ErrStale},
		"duplicate": {guard.Mark{Issuer: issuer, Writer: ahead + 1, Holder: "other"}, guard.ErrDuplicate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if refused.mark.Writer > ahead {
				s.setNumber(t, name, ahead) // so that the next is ahead+1
			}
			r, runs := resource{refused.mark}, 0
			err := locks.Heal(locktest.Context(t), locker, name, func(_ context.Context, lease locks.Lease) error {
				runs++
				err := r.claim(lease.Token())
				if runs == 1 && !errors.Is(err, refused.reason) {
					return fmt.Errorf("first claim: %w", err)
				}
				return err
			})
			if err != nil || runs != 2 {
				t.Errorf("%d runs, %v", runs, err)
			}
			r.mustClaim(t, locktest.MustAcquire(t, locker.Acquire, name))
		})
	}
}

// TestSentinel: a failover while a lock is held and waited for. The client
// finds the new primary, which has no script yet.
func TestSentinel(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedisSentinel(t, testenv.RedisConfig{})
	client := goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: redis.Name(), SentinelAddrs: []string{redis.Addr()},
	})
	t.Cleanup(func() { client.Close() })
	locker := newLocker(t, client, redislock.Config{TTL: longTTL, Replicas: 1, ReplicaTimeout: locktest.Patience})
	held := locktest.MustAcquire(t, locker.Acquire, "r")
	redis.Primary.Kill(t)
	unreplicated := newLocker(t, client, redislock.Config{TTL: longTTL})
	locktest.Await(t, func() bool {
		// The lock was replicated, so the new primary has it too.
		lease, err := unreplicated.TryAcquire(locktest.Context(t), "r")
		if err == nil {
			t.Fatalf("lock of %v was granted again: %v", held.Token(), lease.Token())
		}
		return errors.Is(err, locks.ErrHeld)
	})
	waiting := locktest.Background(locktest.Context(t), t, unreplicated.Acquire, "r")
	locktest.WantHeld(t, held)
	locktest.MustRelease(t, held)
	next := locktest.WantGrant(t, waiting)
	locktest.WantRising(t, held, next)
	locktest.MustRelease(t, next)
}

// TestNotReplicated: a grant that has not reached the replicas in time is undone
// (Redisson #4822: left behind).
func TestNotReplicated(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartRedis(t, testenv.RedisConfig{}))
	locker := s.locker(t, redislock.Config{TTL: longTTL, Replicas: 1, ReplicaTimeout: 50 * time.Millisecond}, s.Addr())
	plain := s.locker(t, redislock.Config{TTL: longTTL}, s.Addr())
	if lease, err := locker.Acquire(locktest.Context(t), "r"); !errors.Is(err, redislock.ErrNotReplicated) {
		t.Fatalf("acquire without a replica: %v, %v", lease, err)
	}
	s.awaitEntries(t, "r", 0)
	held := locktest.MustAcquire(t, plain.TryAcquire, "r")
	waiting := locktest.Background(locktest.Context(t), t, locker.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	locktest.MustRelease(t, held)
	if g := <-waiting; !errors.Is(g.Err, redislock.ErrNotReplicated) {
		t.Fatalf("waiter without a replica: %v, %v", g.Lease, g.Err)
	}
	s.awaitEntries(t, "r", 0)

	replica := testenv.StartRedis(t, testenv.RedisConfig{ReplicaOf: s.Addr()})
	testenv.AwaitReplica(t, replica)
	lease := locktest.MustAcquire(t, s.locker(t, redislock.Config{TTL: longTTL, Replicas: 1, ReplicaTimeout: locktest.Patience}, s.Addr()).Acquire, "r")
	if n := replica.Client(t).HLen(locktest.Context(t), s.key("r", "held")).Val(); n != 1 {
		t.Errorf("the replica has %d holders", n)
	}
	locktest.MustRelease(t, lease)
}
