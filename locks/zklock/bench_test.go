package zklock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

// rival is an implementation to measure.
type rival struct {
	name string
	// join returns a contender on a session of its own, at addr.
	join func(b *testing.B, s *service, addr string) locktest.Contender
}

var rivals = []rival{
	{"zklock", func(b *testing.B, s *service, addr string) locktest.Contender {
		b.Helper()
		return joinLocker(b, s, addr)
	}},
	{"zklock-single", func(b *testing.B, s *service, addr string) locktest.Contender {
		b.Helper()
		single := *s
		single.config.Single = true
		single.config.Root += "-single"
		return joinLocker(b, &single, addr)
	}},
	{"zk.Lock", joinLock},
}

func joinLocker(b *testing.B, s *service, addr string) locktest.Contender {
	b.Helper()
	locker := newLocker(b, zklock.Dial{Servers: []string{addr}}, zklock.Config{
		Root: s.config.Root, Single: s.config.Single, TTL: longTTL,
	})
	locktest.MustRelease(b, locktest.MustAcquire(b, locker.Acquire, "r"))
	return func(ctx context.Context) (func(context.Context) error, error) {
		lease, err := locker.Acquire(ctx, "r")
		if err != nil {
			return nil, err
		}
		return lease.Release, nil
	}
}

func joinLock(b *testing.B, s *service, addr string) locktest.Contender {
	b.Helper()
	lock := zk.NewLock(connect(b, addr), s.root+"-zk.Lock", zk.WorldACL(zk.PermAll))
	unlock := func(context.Context) error { return lock.Unlock() }
	if err := lock.Lock(); err != nil {
		b.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		b.Fatal(err)
	}
	return func(context.Context) (func(context.Context) error, error) { return unlock, lock.Lock() }
}

// BenchmarkUncontended is acquire and release by one client on a live session.
// A thousand before warm the server up.
func BenchmarkUncontended(b *testing.B) {
	for _, r := range rivals {
		b.Run(r.name, func(b *testing.B) {
			s := newService(b, testenv.ZooKeeper(b))
			ctx := context.Background()
			lock := r.join(b, s, s.Addr())
			cycle := func() time.Duration {
				start := time.Now()
				unlock, err := lock(ctx)
				if err != nil {
					b.Fatal(err)
				}
				if err := unlock(ctx); err != nil {
					b.Fatal(err)
				}
				return time.Since(start)
			}
			for range 1000 {
				cycle()
			}
			before := s.server.Packets(b)
			var took []time.Duration
			for b.Loop() {
				took = append(took, cycle())
			}
			b.ReportMetric(float64(s.server.Packets(b)-before)/float64(len(took)), "req/op")
			locktest.Report(b, took, "")
		})
	}
}

// BenchmarkHandover is what happens between the holder's unlock and the next
// holder's return from lock, when that is somebody else.
func BenchmarkHandover(b *testing.B) {
	for _, hold := range []time.Duration{0, 5 * time.Millisecond} {
		for _, waiters := range []int{2, 10, 50} {
			for _, r := range rivals {
				b.Run(fmt.Sprintf("hold=%v/waiters=%d/%s", hold, waiters, r.name), func(b *testing.B) {
					s := newService(b, testenv.ZooKeeper(b))
					var contenders []locktest.Contender
					for range waiters {
						contenders = append(contenders, r.join(b, s, s.Addr()))
					}
					locktest.Contest(b, contenders, 0, 500) // warms the server up
					before := s.server.Packets(b)
					b.ResetTimer()
					took, grants := locktest.Contest(b, contenders, hold, b.N)
					b.StopTimer()
					b.ReportMetric(float64(s.server.Packets(b)-before)/float64(b.N), "req/grant")
					b.ReportMetric(float64(slices.Min(grants)), "min-grants")
					b.ReportMetric(float64(slices.Max(grants)), "max-grants")
					locktest.Report(b, took, "")
				})
			}
		}
	}
}
