package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/test/bench/results"
)

// column is what a table shows of a row.
type column struct {
	head string
	cell func(r *results.Row) string
}

// table is in Markdown, with a line for each row of one bench.
func (d *data) table(part, bench string, columns []column) string {
	p := d.parts[part]
	if p == nil {
		return notYet
	}
	var out strings.Builder
	line := func(cells []string) { fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | ")) }
	var heads []string
	for _, c := range columns {
		heads = append(heads, c.head)
	}
	line(heads)
	line(slices.Repeat([]string{"---"}, len(columns)))
	for i := range p.Rows {
		if p.Rows[i].Bench != bench {
			continue
		}
		var cells []string
		for _, c := range columns {
			cells = append(cells, c.cell(&p.Rows[i]))
		}
		line(cells)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

const notYet = "*Not measured yet.*"

func caseOf(head string) column {
	return column{head, func(r *results.Row) string { return r.Case }}
}

func countOf(head string) column {
	return column{head, func(r *results.Row) string { return results.Count(r.N) }}
}

func sizeIn(head string) column {
	return column{head, func(r *results.Row) string { return sizeOf(r.N) }}
}

// ratio is that of operations per second.
func ratio(head, way, base string) column {
	return column{head, func(r *results.Row) string { return perSecondBy(base)(r, line{way: way}).String() }}
}

// figure is a quantity of a way, with its spread.
func figure(head, way, name string) column {
	return column{head, func(r *results.Row) string { return results.Of(r.Values(way, name)).String() }}
}

// medians are those of some quantities, without their spread.
func medians(head, way string, names ...string) column {
	return column{head, func(r *results.Row) string {
		var cells []string
		for _, name := range names {
			cells = append(cells, results.Digits(results.Of(r.Values(way, name)).Median))
		}
		return strings.Join(cells, " / ")
	}}
}

// whole are medians without digits behind the point.
func whole(head, way string, names ...string) column {
	return column{head, func(r *results.Row) string {
		var cells []string
		for _, name := range names {
			cells = append(cells, strings.Replace(fmt.Sprintf("%.0f", results.Of(r.Values(way, name)).Median), "-0", "0", 1))
		}
		return strings.Join(cells, " / ")
	}}
}

func constant(text string) func(r *results.Row) string {
	return func(*results.Row) string { return text }
}

// cpu is how long CPUs are busy for an operation.
func cpu(head, way string, names ...string) column {
	for i := range names {
		names[i] += " CPU µs"
	}
	return medians(head, way, names...)
}

// tableHead begins a table whose lines begin with a line break.
func tableHead(out *strings.Builder, heads ...string) {
	fmt.Fprintf(out, "| %s |\n|%s", strings.Join(heads, " | "), strings.Repeat(" --- |", len(heads)))
}

// transposed has a line for each quantity that name calls something, and a column
// for each row.
func (d *data) transposed(part, bench, head string, quantities []line) string {
	p := d.parts[part]
	if p == nil {
		return notYet
	}
	var rows []*results.Row
	heads := []string{head}
	for i := range p.Rows {
		if p.Rows[i].Bench == bench {
			rows, heads = append(rows, &p.Rows[i]), append(heads, p.Rows[i].Case)
		}
	}
	var out strings.Builder
	tableHead(&out, heads...)
	for _, q := range quantities {
		fmt.Fprintf(&out, "\n| %s |", q.name)
		for _, r := range rows {
			fmt.Fprintf(&out, " %s |", results.Of(r.Values("", q.way)))
		}
	}
	return out.String()
}

// locks has a line for each lock in a bench with so many contenders, and a column
// for each quantity.
func (d *data) locks(bench string, n int, quantities []line) string {
	p := d.parts["locks"]
	if p == nil {
		return notYet
	}
	i := slices.IndexFunc(p.Rows, func(r results.Row) bool { return r.Bench == bench && (n == 0 || r.N == n) })
	if i < 0 {
		return notYet
	}
	heads := []string{""}
	for _, q := range quantities {
		heads = append(heads, q.name)
	}
	var out strings.Builder
	tableHead(&out, heads...)
	for _, w := range p.Rows[i].Ways {
		fmt.Fprintf(&out, "\n| %s |", w.Name)
		for _, q := range quantities {
			fmt.Fprintf(&out, " %s |", results.Of(p.Rows[i].Values(w.Name, q.way)))
		}
	}
	return out.String()
}

// scale has a line for each number of proxies in each case.
func (d *data) scale(bench string) string {
	p := d.parts["scale"]
	if p == nil {
		return notYet
	}
	var out strings.Builder
	tableHead(&out, "", "", "by that of 1 proxy", "per second", "CPU µs: proxies", "server", "clients")
	for i := range p.Rows {
		r := &p.Rows[i]
		if r.Bench != bench {
			continue
		}
		for _, w := range r.Ways {
			fmt.Fprintf(&out, "\n| %s | %s | %s | %s |", r.Case, w.Name, results.Ratio(r.Values(w.Name, "per second"), r.Values("1 proxy", "per second")),
				results.Digits(results.Of(r.Values(w.Name, "per second")).Median))
			for _, who := range []string{"proxy", "server", "client"} {
				fmt.Fprintf(&out, " %s |", results.Of(r.Values(w.Name, who+" CPU µs")))
			}
		}
	}
	return out.String()
}
