package redislock_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

// arena is one resource and what was counted at it.
type arena struct {
	*service
	requests atomic.Int64 // repeated ones each time
}

// newArena uses a Redis of its own.
func newArena(b *testing.B) *arena {
	b.Helper()
	return &arena{service: newService(b, testenv.StartRedis(b, testenv.RedisConfig{}))}
}

// join returns a locker on a client of its own, which has waited once.
func (a *arena) join(b *testing.B) *redislock.Locker {
	b.Helper()
	client := connect(b, a.Addr())
	client.AddHook(a)
	locker := newLocker(b, client, redislock.Config{Prefix: a.prefix})
	a.subscribe(b, locker)
	return locker
}

// DialHook implements goredis.Hook.
func (a *arena) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessHook implements goredis.Hook.
func (a *arena) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		a.requests.Add(1)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements goredis.Hook.
func (a *arena) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// BenchmarkUncontended is acquire and release by one client.
func BenchmarkUncontended(b *testing.B) {
	a := newArena(b)
	locker := a.join(b)
	ctx := context.Background()
	a.requests.Store(0)
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		lease, err := locker.Acquire(ctx, "r")
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(ctx); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	b.ReportMetric(float64(a.requests.Load())/float64(len(took)), "req/op")
	report(b, took)
}

// BenchmarkHandover is what happens between the holder's release and the next
// holder's return from Acquire, when that is somebody else.
func BenchmarkHandover(b *testing.B) {
	for _, hold := range []time.Duration{0, 5 * time.Millisecond} {
		for _, waiters := range []int{2, 10, 50} {
			b.Run(fmt.Sprintf("hold=%v/waiters=%d", hold, waiters), func(b *testing.B) {
				a := newArena(b)
				var contenders []*redislock.Locker
				for range waiters {
					contenders = append(contenders, a.join(b))
				}
				a.requests.Store(0)
				b.ResetTimer()
				c := contest{hold: hold, grants: make([]int, waiters), last: -1}
				c.left.Store(int64(b.N))
				var wg sync.WaitGroup
				for i, locker := range contenders {
					wg.Go(func() { c.contend(b, i, locker) })
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64(a.requests.Load())/float64(b.N), "req/grant")
				b.ReportMetric(float64(slices.Min(c.grants)), "min-grants")
				b.ReportMetric(float64(slices.Max(c.grants)), "max-grants")
				report(b, c.took)
			})
		}
	}
}

// contest is what contenders share.
type contest struct {
	hold time.Duration
	left atomic.Int64 // grants

	mu       sync.Mutex
	took     []time.Duration // of each handover
	grants   []int           // of each contender
	last     int             // who released last, and when
	released time.Time
}

func (c *contest) contend(b *testing.B, i int, locker *redislock.Locker) {
	b.Helper()
	ctx := context.Background()
	for c.left.Add(-1) >= 0 {
		lease, err := locker.Acquire(ctx, "r")
		if err != nil {
			b.Error(err)
			return
		}
		now := time.Now()
		c.mu.Lock()
		if c.last >= 0 && c.last != i {
			c.took = append(c.took, now.Sub(c.released))
		}
		c.grants[i]++
		c.mu.Unlock()
		if c.hold > 0 {
			<-time.After(c.hold)
		}
		c.mu.Lock()
		c.last, c.released = i, time.Now()
		c.mu.Unlock()
		if err := lease.Release(ctx); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkHeld is what it costs one process to hold 1,000 locks for a TTL.
func BenchmarkHeld(b *testing.B) {
	const held = 1000
	a := newArena(b)
	client := connect(b, a.Addr())
	client.AddHook(a)
	const ttl = 3 * time.Second
	locker := newLocker(b, client, redislock.Config{Prefix: a.prefix, TTL: ttl})
	before := runtime.NumGoroutine()
	leases := make([]locks.Lease, held)
	for i := range leases {
		leases[i] = mustAcquire(b, locker.Acquire, fmt.Sprint(i))
	}
	b.ReportMetric(float64(runtime.NumGoroutine()-before), "goroutines")
	a.requests.Store(0)
	<-time.After(ttl)
	b.ReportMetric(float64(a.requests.Load())/held, "renewals/lock/TTL")
	for _, lease := range leases {
		wantHeld(b, lease)
	}
}

func report(b *testing.B, took []time.Duration) {
	b.Helper()
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Microseconds())
	}
	b.ReportMetric(at(0.5), "p50-us")
	b.ReportMetric(at(0.99), "p99-us")
	b.ReportMetric(at(1), "max-us")
}
