package locktest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Contender locks and unlocks one resource; lock returns its unlock.
type Contender func(ctx context.Context) (func(context.Context) error, error)

// Contest lets the contenders share n grants, each held for a time. It returns how
// long the handovers took, between the holder's unlock and the next holder's return
// from lock when that is somebody else, and the grants of each.
func Contest(b *testing.B, contenders []Contender, hold time.Duration, n int) (took []time.Duration, grants []int) {
	b.Helper()
	ctx := context.Background()
	grants = make([]int, len(contenders))
	var left atomic.Int64
	left.Store(int64(n))
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

// Report reports the median, the 99th percentile and the maximum of the times.
func Report(b *testing.B, took []time.Duration, prefix string) {
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
