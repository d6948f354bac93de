package etcdlock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
)

// contender locks and unlocks one resource; lock returns its unlock.
type contender func(ctx context.Context) (func(context.Context) error, error)

// rival is an implementation to measure.
type rival struct {
	name string
	// join returns a contender on a client of its own, with a live session.
	join func(b *testing.B, client *clientv3.Client, prefix string) contender
}

var rivals = []rival{
	{"etcdlock", joinLocker},
	{"concurrency.Mutex", joinMutex},
}

func joinLocker(b *testing.B, client *clientv3.Client, prefix string) contender {
	b.Helper()
	locker, err := etcdlock.New(client, etcdlock.Config{TTL: quiet, Prefix: prefix})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { locker.Close() })
	mustRelease(b, mustAcquire(b, locker.Acquire, "warm up"))
	return func(ctx context.Context) (func(context.Context) error, error) {
		lease, err := locker.Acquire(ctx, "r")
		if err != nil {
			return nil, err
		}
		return lease.Release, nil
	}
}

func joinMutex(b *testing.B, client *clientv3.Client, prefix string) contender {
	b.Helper()
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(quiet/time.Second)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { session.Close() })
	mutex := concurrency.NewMutex(session, prefix+"r")
	return func(ctx context.Context) (func(context.Context) error, error) {
		return mutex.Unlock, mutex.Lock(ctx)
	}
}

// arena is one resource and what was counted at it.
type arena struct {
	*service
	requests atomic.Int64 // unary ones, repeated ones each time
}

// newArena uses an etcd of its own; fsync is off, as everywhere in the tests.
func newArena(b *testing.B) *arena {
	b.Helper()
	return &arena{service: newService(b, testenv.StartEtcd(b, testenv.EtcdConfig{}))}
}

func (a *arena) join(b *testing.B, r rival) contender {
	b.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: a.etcd.Endpoints(), Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(a.count)},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	return r.join(b, client, a.prefix)
}

func (a *arena) count(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	a.requests.Add(1)
	return invoke(ctx, method, req, reply, cc, opts...)
}

// BenchmarkUncontended is acquire and release by one client on a live session,
// one of each rival in turn: an op is both.
func BenchmarkUncontended(b *testing.B) {
	var arenas []*arena
	var contenders []contender
	for _, r := range rivals {
		a := newArena(b)
		lock := a.join(b, r)
		a.requests.Store(0)
		arenas, contenders = append(arenas, a), append(contenders, lock)
	}
	took := make([][]time.Duration, len(rivals))
	for b.Loop() {
		for i, lock := range contenders {
			start := time.Now()
			unlock, err := lock(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if err := unlock(b.Context()); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	for i, r := range rivals {
		b.ReportMetric(float64(arenas[i].requests.Load())/float64(len(took[i])), r.name+"-req/op")
		report(b, took[i], r.name+"-")
	}
}

// BenchmarkHandover is what happens between the holder's unlock and the next
// holder's return from lock, when that is somebody else.
func BenchmarkHandover(b *testing.B) {
	for _, hold := range []time.Duration{0, 5 * time.Millisecond} {
		for _, waiters := range []int{2, 10, 50} {
			for _, r := range rivals {
				b.Run(fmt.Sprintf("hold=%v/waiters=%d/%s", hold, waiters, r.name), func(b *testing.B) {
					a := newArena(b)
					var contenders []contender
					for range waiters {
						contenders = append(contenders, a.join(b, r))
					}
					a.requests.Store(0)
					b.ResetTimer()
					took, grants := contend(b, contenders, hold)
					b.StopTimer()
					b.ReportMetric(float64(a.requests.Load())/float64(b.N), "req/grant")
					b.ReportMetric(float64(slices.Min(grants)), "min-grants")
					b.ReportMetric(float64(slices.Max(grants)), "max-grants")
					report(b, took, "")
				})
			}
		}
	}
}

// contend lets the contenders share b.N grants, and returns the times of the
// handovers and the grants of each.
func contend(b *testing.B, contenders []contender, hold time.Duration) (took []time.Duration, grants []int) {
	b.Helper()
	ctx := context.Background()
	grants = make([]int, len(contenders))
	var left atomic.Int64
	left.Store(int64(b.N))
	var mu sync.Mutex
	var unlocked time.Time
	last := -1
	var wg sync.WaitGroup
	for i, lock := range contenders {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				unlock, err := lock(ctx)
				if err != nil {
					b.Error(err)
					return
				}
				now := time.Now()
				mu.Lock()
				if last >= 0 && last != i {
					took = append(took, now.Sub(unlocked))
				}
				grants[i]++
				mu.Unlock()
				if hold > 0 {
					<-time.After(hold)
				}
				mu.Lock()
				last, unlocked = i, time.Now()
				mu.Unlock()
				if err := unlock(ctx); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return took, grants
}

func report(b *testing.B, took []time.Duration, prefix string) {
	b.Helper()
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Microseconds())
	}
	b.ReportMetric(at(0.5), prefix+"p50-us")
	b.ReportMetric(at(0.99), prefix+"p99-us")
	b.ReportMetric(at(1), prefix+"max-us")
}
