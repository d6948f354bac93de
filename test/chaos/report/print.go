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
)

// Print writes the report, in Markdown.
func (r *Report) Print(to io.Writer) {
	fmt.Fprintf(to, "# %s, seed %d\n\n%d faults, %d writes (%d acknowledged) under %d tokens in %d rounds within %v: %d violations.\n\n",
		r.Title, r.Seed, r.Faults(), r.Writes(), r.Acknowledged(), r.tokens, r.rounds, r.Lasted.Round(time.Second), len(r.violations))
	fmt.Fprintf(to, "The same faults in the same order: `%s`\n\n", r.Again)
	for _, what := range r.Cannot {
		fmt.Fprintf(to, "Cannot be here: %s.\n\n", what)
	}
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
		took := "-"
		if median, longest := w.took(); longest > 0 {
			took = fmt.Sprintf("%v, %v", median.Round(10*time.Microsecond), longest.Round(time.Millisecond))
		}
		rows = append(rows, []string{
			name, fmt.Sprint(w.writes()), fmt.Sprint(w.written[guard.Applied]), fmt.Sprint(w.written[guard.Refused]), fmt.Sprint(w.written[guard.NotApplied]),
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
