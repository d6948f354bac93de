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

// BenchmarkUncontended is acquire and release by one client on a live session, one
// of each rival in turn: an op is both. A thousand before warm the server up.
func BenchmarkUncontended(b *testing.B) {
	ctx := context.Background()
	cycle := func(lock locktest.Contender) time.Duration {
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
	var locks []locktest.Contender
	for _, r := range rivals {
		s := newService(b, testenv.ZooKeeper(b))
		lock := r.join(b, s, s.Addr())
		for range 1000 {
			cycle(lock)
		}
		before := s.server.Packets(b)
		cycle(lock)
		b.Logf("%s: %d requests", r.name, s.server.Packets(b)-before-1) // one is that question
		locks = append(locks, lock)
	}
	took := make([][]time.Duration, len(rivals))
	for b.Loop() {
		for i, lock := range locks {
			took[i] = append(took[i], cycle(lock))
		}
	}
	for i, r := range rivals {
		locktest.Report(b, took[i], r.name+"-")
	}
}

// BenchmarkHandover is what happens between the holder's unlock and the next
// holder's return from lock, when that is somebody else. The rivals take turns, of
// 100 grants each, so that they meet the same machine.
func BenchmarkHandover(b *testing.B) {
	for _, hold := range []time.Duration{0, 5 * time.Millisecond} {
		for _, waiters := range []int{2, 10, 50} {
			b.Run(fmt.Sprintf("hold=%v/waiters=%d", hold, waiters), func(b *testing.B) {
				var teams []*team
				for _, r := range rivals {
					tm := &team{rival: r, service: newService(b, testenv.ZooKeeper(b)), grants: make([]int, waiters)}
					for range waiters {
						tm.contenders = append(tm.contenders, r.join(b, tm.service, tm.Addr()))
					}
					locktest.Contest(b, tm.contenders, 0, 500) // warms the server up
					teams = append(teams, tm)
				}
				b.ResetTimer()
				for done := 0; done < b.N; done += 100 {
					for _, tm := range teams {
						tm.play(b, hold, min(100, b.N-done))
					}
				}
				b.StopTimer()
				for _, tm := range teams {
					b.ReportMetric(float64(tm.requests)/float64(b.N), tm.name+"-req/grant")
					b.ReportMetric(float64(slices.Min(tm.grants)), tm.name+"-min-grants")
					b.ReportMetric(float64(slices.Max(tm.grants)), tm.name+"-max-grants")
					locktest.Report(b, tm.took, tm.name+"-")
				}
			})
		}
	}
}

// team is the contenders of one rival.
type team struct {
	rival
	*service
	contenders []locktest.Contender
	took       []time.Duration
	grants     []int
	requests   int
}

func (tm *team) play(b *testing.B, hold time.Duration, n int) {
	b.Helper()
	before := tm.server.Packets(b)
	took, grants := locktest.Contest(b, tm.contenders, hold, n)
	tm.requests += tm.server.Packets(b) - before
	tm.took = append(tm.took, took...)
	for i, n := range grants {
		tm.grants[i] += n
	}
}
