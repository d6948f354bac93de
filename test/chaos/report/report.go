package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// Report adds up the rounds of a run.
type Report struct {
	// Title is its first line.
	Title string
	// Seed is that of the run, Again the command that has the same faults in the
	// same order.
	Seed  uint64
	Again string
	// Lasted is how long the run has been going on.
	Lasted time.Duration
	// Cannot are the faults that cannot be on this machine, with their reasons.
	Cannot []string

	rounds     int
	faults     map[string]int // by name
	ways       map[string]*way
	cells      map[cell]*count
	violations []check.Violation
	tokens     int
}

// way is what was done by one way in.
type way struct {
	written          map[guard.Outcome]int
	claims, reads    int
	claimTook        []time.Duration
	reasons, invalid map[string]int // reasons of refusals; violations by invariant
}

// cell is where a fault meets a way in.
type cell struct{ fault, way string }

// count is how many writes were under way during a fault, by what became of them.
type count struct{ writes, acknowledged, refused, unknown, violations int }

// New returns an empty report.
func New(title string, seed uint64, again string) *Report {
	return &Report{Title: title, Seed: seed, Again: again, faults: map[string]int{}, ways: map[string]*way{}, cells: map[cell]*count{}}
}

// Add adds what happened in a round, and what was found in it.
func (r *Report) Add(ops []history.Op, found []check.Violation) {
	r.rounds++
	var faults []history.Op
	numbers := map[string]bool{}
	for _, op := range ops {
		switch op.Kind {
		case history.Fault:
			if op.Is(history.Fault, guard.NotApplied) {
				continue // it could not happen
			}
			faults = append(faults, op)
			r.faults[op.Way]++
		case history.Claim:
			numbers[op.Resource+op.Holder] = true
			fallthrough
		default:
			r.act(op)
		}
	}
	r.tokens += len(numbers)
	r.meet(faults, ops)
	for _, v := range found {
		r.violations = append(r.violations, v)
		r.way(v.Way).invalid[v.Invariant]++
		for _, f := range faults {
			if f.Overlaps(v.At, v.At) {
				r.cell(f.Way, v.Way).violations++
			}
		}
	}
}

func (r *Report) way(name string) *way {
	w, ok := r.ways[name]
	if !ok {
		w = &way{written: map[guard.Outcome]int{}, reasons: map[string]int{}, invalid: map[string]int{}}
		r.ways[name] = w
	}
	return w
}

func (r *Report) cell(fault, way string) *count {
	c, ok := r.cells[cell{fault, way}]
	if !ok {
		c = &count{}
		r.cells[cell{fault, way}] = c
	}
	return c
}

func (r *Report) act(op history.Op) {
	w := r.way(op.Way)
	switch op.Kind {
	case history.Write:
		w.written[op.Outcome]++
	case history.Read:
		w.reads++
	case history.Claim:
		w.claims++
		if op.Is(history.Claim, guard.Applied) {
			w.claimTook = append(w.claimTook, time.Duration(op.Ended-op.Began))
		}
	default:
	}
	if op.Over() && op.Outcome != guard.Applied {
		w.reasons[cmp.Or(op.Reason, "other")]++
	}
}

// meet counts the writes that were under way during each fault. Both are in the
// order in which they began.
func (r *Report) meet(faults, ops []history.Op) {
	writes := slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool { return op.Kind != history.Write })
	for _, f := range faults {
		end := f.Ended
		for _, op := range writes {
			if f.Over() && op.Began > end {
				break
			}
			if !op.Overlaps(f.Began, end) {
				continue
			}
			if !op.Over() && op.Began < f.Began {
				continue // its process was killed, most likely before
			}
			c := r.cell(f.Way, op.Way)
			c.writes++
			switch op.Outcome {
			case guard.Applied:
				c.acknowledged++
			case guard.Refused:
				c.refused++
			case guard.Unknown:
				c.unknown++
			default:
			}
		}
	}
}

// Faults is how many faults there were.
func (r *Report) Faults() (n int) {
	for _, count := range r.faults {
		n += count
	}
	return n
}

// Writes is how many writes were begun.
func (r *Report) Writes() (n int) {
	for _, w := range r.ways {
		n += w.writes()
	}
	return n
}

// Acknowledged is how many of them were.
func (r *Report) Acknowledged() (n int) {
	for _, w := range r.ways {
		n += w.written[guard.Applied]
	}
	return n
}

func (w *way) writes() (n int) {
	for _, count := range w.written {
		n += count
	}
	return n
}

// took returns the median and the longest of the claims that passed.
func (w *way) took() (median, longest time.Duration) {
	if len(w.claimTook) == 0 {
		return 0, 0
	}
	slices.Sort(w.claimTook)
	return w.claimTook[len(w.claimTook)/2], w.claimTook[len(w.claimTook)-1]
}

// Violations are those that were found.
func (r *Report) Violations() []check.Violation { return r.violations }
