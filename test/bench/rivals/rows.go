package rivals

import (
	"time"

	"github.com/fenceproxy/fenceproxy/test/bench/results"
	"github.com/fenceproxy/fenceproxy/test/bench/turns"
)

// few handovers say nothing.
const few = 10

func rowsOf(p plan, all []*result) []results.Row {
	rows := []results.Row{{Bench: "alone", N: 1}}
	for _, n := range p.contenders {
		rows = append(rows, results.Row{Bench: "contended", N: n})
	}
	held := results.Row{Bench: "held", N: p.held}
	for _, r := range all {
		for i := range rows {
			for _, s := range r.samples[rows[i].N] {
				s.add(&rows[i], r.name)
			}
		}
		held.Add(r.name, "goroutines", float64(r.goroutines))
		if renews(r.name) {
			held.Add(r.name, "requests/s", r.resting)
		}
	}
	return append(rows, held)
}

func (s sample) add(row *results.Row, name string) {
	if len(s.handovers) >= few {
		row.Add(name, "handover p50 ms", ms(s.handovers, 50))
		row.Add(name, "handover p99 ms", ms(s.handovers, 99))
	}
	row.Add(name, "wait p99 ms", ms(s.waits, 99))
	row.Add(name, "requests", s.requests)
	row.Add(name, "fairness", s.fairness)
}

func ms(times []time.Duration, p int) float64 { return turns.Percentile(times, p).Seconds() * 1e3 }
