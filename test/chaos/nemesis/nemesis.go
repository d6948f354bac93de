package nemesis

import (
	"context"
	"math"
	"math/rand/v2"
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
	// Longest is how long it lasts at most; 0: it is over at once.
	Longest time.Duration
	// Begin lets it happen and returns what ends it, or nil if nothing has to. It
	// is called by the goroutine of the test.
	Begin func(tb testing.TB, dice *rand.Rand) (end func())
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
	dice   *rand.Rand
	active []under
}

// Run lets faults happen until ctx ends, then ends those that last, and returns
// how many there were. It has to be called by the test's goroutine.
func Run(ctx context.Context, tb testing.TB, record *history.Recorder, s Schedule, catalog []Fault) int {
	tb.Helper()
	r := &run{tb: tb, record: record, dice: rand.New(rand.NewPCG(s.Seed, 1))}
	defer func() { r.end(time.Now().Add(24 * time.Hour)) }() // also if the test ends in the middle
	count := 0
	for next := time.Now(); ctx.Err() == nil; {
		r.end(time.Now())
		if time.Now().Before(next) || len(r.active) >= s.AtOnce {
			nap(ctx, 2*time.Millisecond)
			continue
		}
		if r.begin(catalog) {
			count++
		}
		next = next.Add(s.Every/2 + r.upTo(s.Every))
	}
	return count
}

func (r *run) upTo(d time.Duration) time.Duration { return time.Duration(r.dice.Int64N(int64(d))) }

// begin draws a fault; if its target has one already, nothing happens.
func (r *run) begin(catalog []Fault) bool {
	f := r.draw(catalog)
	// Most are short, so that there can be many, and some are long.
	lasts := time.Duration(float64(f.Longest) * math.Pow(r.dice.Float64(), 3))
	for _, u := range r.active {
		if u.fault.Target == f.Target {
			return false
		}
	}
	op := r.record.Begin(history.Op{Kind: history.Fault, Way: f.Name, Resource: f.Target})
	u := under{op: op, fault: f, end: f.Begin(r.tb, r.dice)}
	u.until = time.Now().Add(lasts)
	r.active = append(r.active, u)
	return true
}

func (r *run) draw(catalog []Fault) Fault {
	all := 0
	for _, f := range catalog {
		all += f.Weight
	}
	at := r.dice.IntN(all)
	for _, f := range catalog {
		if at -= f.Weight; at < 0 {
			return f
		}
	}
	panic("unreachable")
}

// end ends the faults that are over by now.
func (r *run) end(now time.Time) {
	var rest []under
	for _, u := range r.active {
		if u.until.After(now) {
			rest = append(rest, u)
			continue
		}
		if u.end != nil {
			u.end()
		}
		r.record.End(u.op, guard.Applied, "", nil)
	}
	r.active = rest
}

func nap(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
