// Package turns lets several ways to do one thing take turns, so that noise of the
// machine meets all of them alike.
package turns

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/machine"
	"github.com/fenceproxy/fenceproxy/test/bench/results"
)

// Way is one way to do it.
type Way struct {
	Name string
	// Run does it for the time of one turn.
	Run func(ctx context.Context, turn time.Duration) (Done, error)
	// Processes are those whose CPU time counts, by what they are to the way:
	// "proxy", "server". What they started counts with them.
	Processes map[string][]int
}

// Done is what a turn has brought.
type Done struct {
	Operations int
	Took       time.Duration
	// P50 and P99 are of the times of single operations; 0 if they are not known.
	P50, P99 time.Duration
	// Client is the CPU time of the clients.
	Client time.Duration
}

// Plan is how much to measure.
type Plan struct {
	Rounds int
	Turn   time.Duration
}

// Take fills the row with the figures of all rounds: operations per second,
// latencies in µs, and the CPU time that an operation takes in µs.
func Take(ctx context.Context, p Plan, row *results.Row, ways []Way) error {
	for round := range p.Rounds {
		for _, i := range rand.Perm(len(ways)) {
			w := ways[i]
			before := w.cpu()
			done, err := w.Run(ctx, p.Turn)
			if err != nil {
				return fmt.Errorf("%s %s %d by %s: %w", row.Bench, row.Case, row.N, w.Name, err)
			}
			w.add(row, done, before)
		}
		bed.Say("%s %s %d  round %d/%d  %s", row.Bench, row.Case, row.N, round+1, p.Rounds, speeds(row, ways, round))
	}
	// In the order of the ways, whichever came first.
	slices.SortFunc(row.Ways, func(a, b results.Way) int { return index(ways, a.Name) - index(ways, b.Name) })
	return nil
}

func index(ways []Way, name string) int {
	return slices.IndexFunc(ways, func(w Way) bool { return w.Name == name })
}

func (w *Way) cpu() map[string]time.Duration {
	used := map[string]time.Duration{}
	for what, pids := range w.Processes {
		for _, pid := range pids {
			used[what] += machine.CPU(pid)
		}
	}
	return used
}

func (w *Way) add(row *results.Row, done Done, before map[string]time.Duration) {
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(done.Operations) }
	row.Add(w.Name, "per second", float64(done.Operations)/done.Took.Seconds())
	if done.P50 > 0 {
		row.Add(w.Name, "p50 µs", float64(done.P50.Nanoseconds())/1000)
		row.Add(w.Name, "p99 µs", float64(done.P99.Nanoseconds())/1000)
	}
	if done.Client > 0 {
		row.Add(w.Name, "client CPU µs", each(done.Client))
	}
	after := w.cpu()
	for _, what := range slices.Sorted(maps.Keys(w.Processes)) {
		row.Add(w.Name, what+" CPU µs", each(after[what]-before[what]))
	}
}

func speeds(row *results.Row, ways []Way, round int) string {
	var text strings.Builder
	for _, w := range ways {
		fmt.Fprintf(&text, "  %s %s/s", w.Name, results.Digits(row.Values(w.Name, "per second")[round]))
	}
	return text.String()
}

// Load does something over and over with so many workers, each at least once,
// until the time of a turn is up.
func Load(ctx context.Context, workers int, turn time.Duration, do func(ctx context.Context, worker int) error) (Done, error) {
	var all sync.WaitGroup
	failed := make([]error, workers)
	times := make([][]time.Duration, workers)
	used, start := machine.Self(), time.Now()
	for worker := range workers {
		all.Go(func() {
			for begun := time.Now(); len(times[worker]) == 0 || begun.Sub(start) < turn; {
				if failed[worker] = do(ctx, worker); failed[worker] != nil {
					return
				}
				ended := time.Now()
				times[worker] = append(times[worker], ended.Sub(begun))
				begun = ended
			}
		})
	}
	all.Wait()
	took, client := time.Since(start), machine.Self()-used
	every := slices.Concat(times...)
	if err := errors.Join(failed...); err != nil {
		return Done{}, err
	}
	return Done{len(every), took, Percentile(every, 50), Percentile(every, 99), client}, nil
}

// Percentile is of times in any order; 0 of none.
func Percentile(times []time.Duration, p int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[(len(sorted)-1)*p/100]
}
