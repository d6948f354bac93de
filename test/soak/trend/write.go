package trend

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteCSV writes every sample, a line each, with seconds in the first column.
func (s *Samples) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := []string{"seconds"}
	for _, m := range s.Metrics {
		head = append(head, m.Name)
	}
	if err := out.Write(head); err != nil {
		return err
	}
	for _, r := range s.rows {
		line := []string{strconv.FormatFloat(r.at.Seconds(), 'f', 1, 64)}
		for _, y := range r.values {
			text := ""
			if !math.IsNaN(y) {
				text = strconv.FormatFloat(y, 'f', -1, 64)
			}
			line = append(line, text)
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// WriteTable writes what became of each metric, and at last which grow.
func WriteTable(w io.Writer, verdicts []Verdict) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\twarm\tlast\tpeak\tper hour\t\t")
	var grow, may []string
	for _, v := range verdicts {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t\n", v.Name, figure(v.First), figure(v.Last), figure(v.Peak), signed(v.PerHour), v.word())
		switch {
		case v.Grows && v.Why == "":
			grow = append(grow, v.Name)
		case v.Grows:
			may = append(may, fmt.Sprintf("%s (%s)", v.Name, v.Why))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\ngrow, and should not: %s\ngrow, and may: %s\n", list(grow), list(may))
	return err
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (v Verdict) word() string {
	switch {
	case v.Missing:
		return "never read"
	case !v.Known:
		return "too short to tell"
	case v.Grows && v.Why == "":
		return "GROWS"
	case v.Grows:
		return "grows"
	}
	return "steady"
}

func signed(y float64) string {
	if y > 0 {
		return "+" + figure(y)
	}
	return figure(y)
}

// figure is a number with at most four digits that count.
func figure(y float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if math.Abs(y) >= unit.size {
			if unit.name == "k" {
				unit.size = 1e3
			}
			return strconv.FormatFloat(y/unit.size, 'f', 1, 64) + unit.name
		}
	}
	if y == math.Trunc(y) {
		return strconv.FormatFloat(y, 'f', 0, 64)
	}
	return strconv.FormatFloat(y, 'f', 1, 64)
}
