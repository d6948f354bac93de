package rivals

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/turns"
)

// patience is for what would else never end.
const patience = 5 * time.Minute

// ttl is that of all locks and sessions.
const ttl = 15 * time.Second

// contender takes one lock again and again.
type contender struct {
	lock, unlock func(ctx context.Context) error
}

// rival is a lock to measure.
type rival struct {
	name string
	// join opens a client, and returns a contender for resource.
	join func(b *bed.Bed, resource string) contender
	// hold opens one client, and returns what acquires the n-th lock with it.
	hold func(b *bed.Bed) func(ctx context.Context, n int) error
}

// family is a lock service with the locks that use it.
type family struct {
	name   string
	rivals []rival
	// start starts the server, and returns what it is.
	start    func(b *bed.Bed) string
	requests func() int64 // so far
	used     int          // resources
}

// sample is one round of one rival with so many contenders; 1 is alone.
type sample struct {
	handovers, waits []time.Duration
	requests         float64 // per grant
	fairness         float64
}

// result is all that was measured of a rival.
type result struct {
	name       string
	samples    map[int][]sample // by contenders
	goroutines int
	resting    float64 // requests per second
}

func (f *family) measure(ctx context.Context, p plan) ([]*result, error) {
	var measured []*result
	for _, r := range f.rivals {
		measured = append(measured, &result{name: r.name, samples: map[int][]sample{}})
	}
	for round := range p.rounds {
		for _, n := range append([]int{1}, p.contenders...) {
			for _, res := range measured {
				s, err := f.contest(ctx, p, f.rival(res.name), n)
				if err != nil {
					return nil, fmt.Errorf("%s, %d contenders: %w", res.name, n, err)
				}
				res.samples[n] = append(res.samples[n], s)
				bed.Say("round %d/%d  %-22s %2d contenders  p50 %v  p99 %v", round+1, p.rounds, res.name, n,
					turns.Percentile(s.handovers, 50), turns.Percentile(s.handovers, 99))
			}
		}
	}
	for _, res := range measured {
		if err := f.rest(ctx, p, f.rival(res.name), res); err != nil {
			return nil, fmt.Errorf("%s, %d locks: %w", res.name, p.held, err)
		}
		bed.Say("%-22s %d held: %d goroutines, %.1f requests/s", res.name, p.held, res.goroutines, res.resting)
	}
	return measured, nil
}

func (f *family) rival(name string) rival {
	return f.rivals[slices.IndexFunc(f.rivals, func(r rival) bool { return r.name == name })]
}

// contest lets n contenders share the grants, after a warm-up.
func (f *family) contest(ctx context.Context, p plan, r rival, n int) (s sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f.used++
	resource := fmt.Sprintf("contest-%d", f.used)
	err = bed.Run(ctx, func(b *bed.Bed) error {
		var contenders []contender
		for range n {
			contenders = append(contenders, r.join(b, resource))
		}
		grants, hold, away, warmUp := p.grants, p.hold, p.away, 2*n
		if n == 1 {
			grants, hold, away, warmUp = p.alone, 0, 0, p.warmUpAlone
		}
		// As many for each of them, so that all end together if they are fair.
		grants = max(grants/n, 4) * n
		if _, err := share(ctx, contenders, hold, away, warmUp); err != nil {
			return err
		}
		before := f.requests()
		s, err = share(ctx, contenders, hold, away, grants)
		s.requests = float64(f.requests()-before) / float64(grants)
		return err
	})
	return s, err
}

// share lets the contenders share so many grants. Alone, a handover is the whole
// of acquire and release.
func share(ctx context.Context, contenders []contender, hold, away time.Duration, grants int) (sample, error) {
	var (
		s        sample
		mu       sync.Mutex
		failed   error
		released time.Time
		last     = -1
		left     atomic.Int64
		work     sync.WaitGroup
	)
	left.Store(int64(grants))
	counts := make([]int, len(contenders))
	for i, c := range contenders {
		work.Go(func() {
			for left.Add(-1) >= 0 {
				asked := time.Now()
				err := c.lock(ctx)
				if err == nil {
					got := time.Now()
					mu.Lock()
					s.waits = append(s.waits, got.Sub(asked))
					if last >= 0 && last != i {
						s.handovers = append(s.handovers, got.Sub(released))
					}
					counts[i]++
					mu.Unlock()
					pause(hold, hold/5)
					mu.Lock()
					last, released = i, time.Now()
					mu.Unlock()
					err = c.unlock(ctx)
				}
				if len(contenders) == 1 {
					s.handovers = append(s.handovers, time.Since(asked))
				}
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
				pause(away, away/2)
			}
		})
	}
	work.Wait()
	s.fairness = float64(slices.Min(counts)) / float64(slices.Max(counts))
	return s, failed
}

// pause waits for d, more or less.
func pause(d, less time.Duration) {
	if d > 0 {
		<-time.After(d - less + rand.N(2*less))
	}
}

// rest holds many locks with one client, and does nothing.
func (f *family) rest(ctx context.Context, p plan, r rival, res *result) error {
	return bed.Run(ctx, func(b *bed.Bed) error {
		acquire := r.hold(b)
		if err := acquire(ctx, 0); err != nil {
			return err
		}
		before := runtime.NumGoroutine()
		for i := range p.held - 1 {
			if err := acquire(ctx, i+1); err != nil {
				return err
			}
		}
		if renews(r.name) {
			// Renewals that go together have found each other after one TTL.
			<-time.After(p.rest)
		}
		sent, since := f.requests(), time.Now()
		for time.Since(since) < p.rest {
			res.goroutines = max(res.goroutines, runtime.NumGoroutine()-before)
			if !renews(r.name) {
				break
			}
			<-time.After(time.Millisecond)
		}
		res.resting = float64(f.requests()-sent) / time.Since(since).Seconds()
		return nil
	})
}
