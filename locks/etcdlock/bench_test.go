package etcdlock_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

// rival is an implementation to measure.
type rival struct {
	name string
	// join returns a contender on a client of its own, with a live session.
	join func(b *testing.B, client *clientv3.Client, prefix string) locktest.Contender
}

var rivals = []rival{
	{"etcdlock", joinLocker},
	{"concurrency.Mutex", joinMutex},
}

func joinLocker(b *testing.B, client *clientv3.Client, prefix string) locktest.Contender {
	b.Helper()
	locker, err := etcdlock.New(client, etcdlock.Config{TTL: quiet, Prefix: prefix})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { locker.Close() })
	locktest.MustRelease(b, locktest.MustAcquire(b, locker.Acquire, "warm up"))
	return func(ctx context.Context) (func(context.Context) error, error) {
		lease, err := locker.Acquire(ctx, "r")
		if err != nil {
			return nil, err
		}
		return lease.Release, nil
	}
}

func joinMutex(b *testing.B, client *clientv3.Client, prefix string) locktest.Contender {
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

func (a *arena) join(b *testing.B, r rival) locktest.Contender {
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
	var contenders []locktest.Contender
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
		locktest.Report(b, took[i], r.name+"-")
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
					var contenders []locktest.Contender
					for range waiters {
						contenders = append(contenders, a.join(b, r))
					}
					a.requests.Store(0)
					b.ResetTimer()
					took, grants := locktest.Contest(b, contenders, hold, b.N)
					b.StopTimer()
					b.ReportMetric(float64(a.requests.Load())/float64(b.N), "req/grant")
					b.ReportMetric(float64(slices.Min(grants)), "min-grants")
					b.ReportMetric(float64(slices.Max(grants)), "max-grants")
					locktest.Report(b, took, "")
				})
			}
		}
	}
}
