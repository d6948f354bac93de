package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// Report adds up the rounds of a run.
type Report struct {
	// Title is its first line.
	Title string

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
func New(title string) *Report {
	return &Report{Title: title, faults: map[string]int{}, ways: map[string]*way{}, cells: map[cell]*count{}}
}

// Add adds what happened in a round, and what was found in it.
func (r *Report) Add(ops []history.Op, found []check.Violation) {
	var faults []history.Op
	numbers := map[string]bool{}
	for _, op := range ops {
		switch op.Kind {
		case history.Fault:
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
	for _, f := range faults {
		end := f.Ended
		for _, op := range ops {
			if f.Over() && op.Began > end {
				break
			}
			if op.Kind != history.Write || !op.Overlaps(f.Began, end) {
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

// Faults is how many faults there were, Writes how many writes were begun, by any
// way in.
func (r *Report) Faults() (n int) {
	for _, count := range r.faults {
		n += count
	}
	return n
}

// Writes is how many writes were begun.
func (r *Report) Writes() (n int) {
	for _, w := range r.ways {
		for _, count := range w.written {
			n += count
		}
	}
	return n
}

// Violations are those that were found.
func (r *Report) Violations() []check.Violation { return r.violations }

// Print writes the report, in Markdown.
func (r *Report) Print(to io.Writer) {
	fmt.Fprintf(to, "# %s\n\n%d faults, %d writes under %d tokens, %d violations.\n\n", r.Title, r.Faults(), r.Writes(), r.tokens, len(r.violations))
	r.printWays(to)
	r.printCells(to)
	if len(r.violations) == 0 {
		return
	}
	fmt.Fprintln(to, "\n## Violations")
	for i, v := range r.violations {
		if i == 100 {
			fmt.Fprintf(to, "\nand %d more\n", len(r.violations)-i)
			break
		}
		fmt.Fprintf(to, "\n- %v", v)
	}
	fmt.Fprintln(to)
}

func (r *Report) printWays(to io.Writer) {
	rows := [][]string{{"way in", "writes", "acknowledged", "refused", "not applied", "unknown", "reads", "claims", "claim took (median, longest)", "violations"}}
	for _, name := range slices.Sorted(maps.Keys(r.ways)) {
		w := r.ways[name]
		all := 0
		for _, n := range w.written {
			all += n
		}
		slices.Sort(w.claimTook)
		took := "-"
		if n := len(w.claimTook); n > 0 {
			took = fmt.Sprintf("%v, %v", w.claimTook[n/2].Round(10*time.Microsecond), w.claimTook[n-1].Round(time.Millisecond))
		}
		rows = append(rows, []string{
			name, fmt.Sprint(all), fmt.Sprint(w.written[guard.Applied]), fmt.Sprint(w.written[guard.Refused]), fmt.Sprint(w.written[guard.NotApplied]),
			fmt.Sprint(w.written[guard.Unknown]), fmt.Sprint(w.reads), fmt.Sprint(w.claims), took, tally(w.invalid),
		})
	}
	table(to, rows)
	for _, name := range slices.Sorted(maps.Keys(r.ways)) {
		if reasons := r.ways[name].reasons; len(reasons) > 0 {
			fmt.Fprintf(to, "\n%s, what was not applied: %s  ", name, tally(reasons))
		}
	}
	fmt.Fprintln(to)
}

// printCells has a row for each fault and a column for each way in.
func (r *Report) printCells(to io.Writer) {
	ways := slices.Sorted(maps.Keys(r.ways))
	rows := [][]string{slices.Concat([]string{"fault", "times"}, ways)}
	for _, fault := range slices.Sorted(maps.Keys(r.faults)) {
		row := []string{fault, fmt.Sprint(r.faults[fault])}
		for _, name := range ways {
			text := ""
			if c, ok := r.cells[cell{fault, name}]; ok {
				text = fmt.Sprintf("%d/%d/%d", c.acknowledged, c.refused, c.unknown)
				if c.violations > 0 {
					text += fmt.Sprintf(" **%d**", c.violations)
				}
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	if len(rows) > 1 {
		fmt.Fprint(to, "\nWrites that were under way during a fault: acknowledged/refused/unknown, and **violations**.\n\n")
		table(to, rows)
	}
}

func tally(counts map[string]int) string {
	words := make([]string, 0, len(counts))
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s %d", key, counts[key]))
	}
	return cmp.Or(strings.Join(words, ", "), "0")
}

// table writes rows, the first of which is the head, in columns.
func table(to io.Writer, rows [][]string) {
	w := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)
	for i, row := range rows {
		fmt.Fprintf(w, "| %s\t|\n", strings.Join(row, "\t| "))
		if i == 0 {
			fmt.Fprintf(w, "|%s\n", strings.Repeat("---\t|", len(row)))
		}
	}
	w.Flush()
}
