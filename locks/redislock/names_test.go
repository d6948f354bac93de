package redislock_test

import (
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

// braces are names that would move the keys of one lock to different slots of a
// cluster if they were part of a key as they are (Redisson #1098, #6867, #7116).
func braces() []string {
	return []string{
		"orders", "orders/eu", "{", "}", "{}", "a{b}c", "{a}{b}", "}{", "{}a", "a}b", "\u65e5\u672c\u8a9e {x}",
		strings.Repeat("{", guard.MaxResourceLen), strings.Repeat("}", guard.MaxResourceLen), strings.Repeat("n", guard.MaxResourceLen),
	}
}

// TestCluster: locks of all names work on a Cluster, of one and of three, and
// the keys of each are in one slot.
func TestCluster(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"one": 1, "three": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := testenv.StartRedisCluster(t, n)
			var addrs []string
			for _, node := range nodes {
				addrs = append(addrs, node.Addr())
			}
			open := func() *redislock.Locker {
				client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addrs})
				t.Cleanup(func() { client.Close() })
				return newLocker(t, client, redislock.Config{TTL: longTTL, Prefix: "p:"})
			}
			a, b := open(), open()
			var wg sync.WaitGroup
			for _, resource := range braces() {
				wg.Go(func() { clusterLife(t, nodes, a, b, resource) })
			}
			wg.Wait()
		})
	}
}

func clusterLife(t *testing.T, nodes []*testenv.RedisServer, a, b *redislock.Locker, resource string) {
	t.Helper()
	ctx := locktest.Context(t)
	first, err := a.Acquire(ctx, resource)
	if err != nil {
		t.Errorf("acquire %q: %v", resource, err)
		return
	}
	reader := locktest.Background(ctx, t, b.AcquireShared, resource)
	writer := locktest.Background(ctx, t, a.Acquire, resource)
	slots, keys := map[int64]bool{}, 0
	locktest.Await(t, func() bool {
		slots, keys = map[int64]bool{}, 0
		for _, node := range nodes {
			client := node.Client(t)
			for _, key := range client.Keys(ctx, "p:{"+locks.Segment(resource)+"}:*").Val() {
				slots[client.ClusterKeySlot(ctx, key).Val()] = true
				keys++
			}
		}
		return keys == 4
	})
	if len(slots) != 1 {
		t.Errorf("keys of %q are in %d slots", resource, len(slots))
	}
	if err := first.Release(ctx); err != nil {
		t.Errorf("release %q: %v", resource, err)
	}
	for range 2 { // in whichever order they came
		select {
		case g := <-reader:
			reader = nil
			release(t, g)
		case g := <-writer:
			writer = nil
			release(t, g)
		}
	}
}

func release(t *testing.T, g locktest.Granted) {
	t.Helper()
	if g.Err != nil {
		t.Error(g.Err)
		return
	}
	if err := g.Lease.Release(locktest.Context(t)); err != nil {
		t.Error(err)
	}
}

// TestNeighbours: the waiters of a name are not those of one that it begins.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Redis(t))
	locker := s.locker(t, redislock.Config{TTL: longTTL}, s.Addr())
	held := locktest.MustAcquire(t, locker.Acquire, "orders")
	waiting := locktest.Background(locktest.Context(t), t, locker.Acquire, "orders")
	s.awaitEntries(t, "orders", 2)
	for _, neighbour := range []string{"orders/eu", "orders:held", "order", "orders}", "{orders}", "orders%2Feu"} {
		locktest.MustRelease(t, locktest.MustAcquire(t, locker.TryAcquire, neighbour))
	}
	locktest.MustRelease(t, held)
	locktest.MustRelease(t, locktest.WantGrant(t, waiting))
}
