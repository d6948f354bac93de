package redislock_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

// trips is a goredis.Hook that counts round trips. While failing is set,
// pipelines fail as if Redis had never seen them.
type trips struct {
	n       atomic.Int64
	failing atomic.Bool
}

func (h *trips) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (h *trips) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		h.n.Add(1)
		return next(ctx, cmd)
	}
}

func (h *trips) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		h.n.Add(1)
		if h.failing.Load() {
			for _, cmd := range cmds {
				cmd.SetErr(context.DeadlineExceeded)
			}
			return context.DeadlineExceeded
		}
		return next(ctx, cmds)
	}
}

// acquireMany acquires n locks of names that begin with prefix.
func acquireMany(tb testing.TB, locker *redislock.Locker, prefix string, n int) []locks.Lease {
	tb.Helper()
	leases := make([]locks.Lease, n)
	for i := range leases {
		leases[i] = locktest.MustAcquire(tb, locker.Acquire, fmt.Sprint(prefix, i))
	}
	return leases
}

func awaitRenewal(tb testing.TB, leases []locks.Lease) {
	tb.Helper()
	before := make([]time.Time, len(leases))
	for i, lease := range leases {
		before[i] = lease.Deadline()
	}
	locktest.Await(tb, func() bool {
		for i, lease := range leases {
			if !lease.Deadline().After(before[i]) {
				return false
			}
		}
		return true
	})
}

// TestRenewTogether: many leases are renewed in few requests.
func TestRenewTogether(t *testing.T) {
	t.Parallel()
	const n = 250
	for name, redis := range map[string]*testenv.RedisServer{
		"single": testenv.Redis(t), "cluster": testenv.StartRedisCluster(t, 3)[0],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, redis)
			var client goredis.UniversalClient = connect(t, redis.Addr())
			if name == "cluster" {
				client = goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{redis.Addr()}})
				t.Cleanup(func() { client.Close() })
			}
			var h trips
			client.AddHook(&h)
			locker := newLocker(t, client, redislock.Config{Prefix: s.prefix, TTL: 4 * shortTTL})
			leases := acquireMany(t, locker, "", n)
			awaitRenewal(t, leases) // now they go together
			before := h.n.Load()
			awaitRenewal(t, leases)
			awaitRenewal(t, leases)
			if got := h.n.Load() - before; got > n {
				t.Errorf("%d requests for two or three renewals of %d leases", got, n)
			}
			for _, lease := range leases {
				locktest.WantHeld(t, lease)
			}
		})
	}
}

// TestOneOfManyIsGone: it is lost, and the others are not.
func TestOneOfManyIsGone(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartRedis(t, testenv.RedisConfig{}))
	locker := s.locker(t, redislock.Config{TTL: shortTTL}, s.Addr())
	leases := acquireMany(t, locker, "", 20)
	awaitRenewal(t, leases)
	s.Break(t, "7", leases[7].Token())
	// What somebody has put in the place of a lock is an error each time.
	if err := s.client.Set(locktest.Context(t), s.key("8", "until"), "what", 0).Err(); err != nil {
		t.Fatal(err)
	}
	gone := leases[7:9]
	kept := slices.Concat(leases[:7], leases[9:])
	locktest.WantLost(t, gone[0])
	// In the middle of that Redis forgets the script.
	s.client.ScriptFlush(locktest.Context(t))
	awaitRenewal(t, kept)
	locktest.WantLost(t, gone[1])
	awaitRenewal(t, kept)
	for _, lease := range kept {
		locktest.WantHeld(t, lease)
	}
}

// TestTogetherFails: a lease that was not renewed together with others is renewed
// by itself.
func TestTogetherFails(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	client := connect(t, s.Addr())
	var h trips
	client.AddHook(&h)
	locker := newLocker(t, client, redislock.Config{Prefix: s.prefix, TTL: shortTTL})
	leases := acquireMany(t, locker, "", 20)
	awaitRenewal(t, leases)
	h.failing.Store(true)
	awaitRenewal(t, leases)
	awaitRenewal(t, leases)
	for _, lease := range leases {
		locktest.MustRelease(t, lease)
	}
}

// TestLongTTL: there is no TTL that is too long to be counted.
func TestLongTTL(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	locker := s.locker(t, redislock.Config{TTL: 20 * 365 * 24 * time.Hour}, s.Addr())
	held := locktest.MustAcquire(t, locker.Acquire, "r")
	locktest.WantHeld(t, held)
	waiting := locktest.Background(locktest.Context(t), t, locker.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	locktest.MustRelease(t, held)
	locktest.MustRelease(t, locktest.WantGrant(t, waiting))
}
