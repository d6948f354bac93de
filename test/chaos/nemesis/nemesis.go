package nemesis

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// Fault is something that happens.
type Fault struct {
	// Name is what a report calls it.
	Name string
	// Target is what it happens to. A target has one fault at a time.
	Target string
	// Weight is how often it is drawn, relative to others.
	Weight int
	// Shortest and Longest are how long it lasts; 0: it is over at once.
	Shortest, Longest time.Duration
	// Begin lets it happen and returns what ends it, or nil if nothing has to. If
	// it cannot happen now (there is no leader to be killed) it says so. It is
	// called by the goroutine of the test.
	Begin func(tb testing.TB, dice *rand.Rand) (end func(), happened bool)
}

// Schedule says how much happens.
type Schedule struct {
	Seed uint64
	// Every is the mean time between two beginnings.
	Every time.Duration
	// AtOnce is how many faults there are at a time, at most.
	AtOnce int
}

// under is a fault that is going on.
type under struct {
	op    history.Op
	fault Fault
	until time.Time
	end   func()
}

// run is the faults of one run.
type run struct {
	tb     testing.TB
	record *history.Recorder
	active []under
}

// Run lets faults happen until ctx ends, then ends those that last, and returns
// how many there were, not counting those that could not be. It has to be called by the test's goroutine.
func Run(ctx context.Context, tb testing.TB, record *history.Recorder, s Schedule, catalog []Fault) (count int) {
	tb.Helper()
	r := &run{tb: tb, record: record}
	defer r.endAll() // also if the test ends in the middle
	drawn := uint64(0)
	for next := time.Now(); ctx.Err() == nil; {
		r.end(func(u under) bool { return !u.until.After(time.Now()) })
		if time.Now().Before(next) || len(r.active) >= s.AtOnce {
			nap(ctx, 2*time.Millisecond)
			continue
		}
		// What happens depends on the seed and on how many were drawn, and not on
		// when: each has dice of its own.
		dice := rand.New(rand.NewPCG(s.Seed, drawn))
		drawn++
		if r.begin(draw(catalog, dice), dice) {
			count++
		}
		next = next.Add(s.Every/2 + time.Duration(dice.Int64N(int64(s.Every))))
	}
	return count
}

// begin begins a fault, if that can be. One that its target has is over.
func (r *run) begin(f Fault, dice *rand.Rand) (happened bool) {
	r.end(func(u under) bool { return u.fault.Target == f.Target })
	// Most are short, so that there can be many, and some are long.
	lasts := f.Shortest + time.Duration(float64(f.Longest-f.Shortest)*math.Pow(dice.Float64(), 3))
	u := under{op: r.record.Begin(history.Op{Kind: history.Fault, Way: f.Name, Resource: f.Target}), fault: f}
	if u.end, happened = f.Begin(r.tb, dice); !happened {
		r.record.End(u.op, guard.NotApplied, "", nil)
		return false
	}
	u.until = time.Now().Add(lasts)
	r.active = append(r.active, u)
	return true
}

func draw(catalog []Fault, dice *rand.Rand) Fault {
	all := 0
	for _, f := range catalog {
		all += f.Weight
	}
	at := dice.IntN(all)
	for _, f := range catalog {
		if at -= f.Weight; at < 0 {
			return f
		}
	}
	panic("unreachable")
}

// end ends the faults that are over.
func (r *run) end(over func(under) bool) {
	for {
		i := slices.IndexFunc(r.active, over)
		if i < 0 {
			return
		}
		u := r.active[i]
		r.active = slices.Delete(r.active, i, i+1) // it is not ended again if that ends the test
		if u.end != nil {
			u.end()
		}
		r.record.End(u.op, guard.Applied, "", nil)
	}
}

// endAll ends all of them, even those behind one whose end ends the test.
func (r *run) endAll() {
	if len(r.active) == 0 {
		return
	}
	defer r.endAll()
	r.end(func(under) bool { return true })
}

func nap(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
