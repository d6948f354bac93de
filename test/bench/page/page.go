// Package page writes docs/benchmarks.md, its plots, and the figures in
// docs/operations.md, from the results of all parts and from a template that has
// the prose.
package page

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/fenceproxy/fenceproxy/test/bench/results"
)

//go:embed benchmarks.md.tmpl sizing.md.tmpl
var templates embed.FS

// data is what the templates see.
type data struct {
	names []string
	parts map[string]*results.Part // nil for what was not measured
}

// Write writes the page of the parts, whose results are in the folder benchmarks
// of out, into out. Written twice it is the same. Where out is docs itself, the
// figures of operations.md are written too.
func Write(out, docs string, names []string) error {
	d := &data{names, map[string]*results.Part{}}
	dir := filepath.Join(out, "benchmarks")
	for _, name := range names {
		part, err := results.Load(dir, name)
		if err != nil {
			return err
		}
		d.parts[name] = part
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	page, err := d.render("benchmarks.md.tmpl")
	if err != nil {
		return err
	}
	sizing, err := d.render("sizing.md.tmpl")
	if err != nil {
		return err
	}
	operations, err := os.ReadFile(filepath.Join(docs, "operations.md"))
	if err != nil {
		return err
	}
	if operations, err = between(operations, sizing); err != nil {
		return fmt.Errorf("operations.md: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(out, "benchmarks.md"), page, 0o644),
		os.WriteFile(filepath.Join(out, "operations.md"), operations, 0o644),
		d.plots(dir),
	)
}

const (
	begin = "<!-- Figures of `make bench`; written by test/bench/page/sizing.md.tmpl. -->\n"
	end   = "<!-- End of the figures. -->"
)

// between replaces what stands between two marks.
func between(text, with []byte) ([]byte, error) {
	before, rest, found := bytes.Cut(text, []byte(begin))
	_, after, ends := bytes.Cut(rest, []byte(end))
	if !found || !ends {
		return nil, errors.New("it has no place for the figures")
	}
	return bytes.Join([][]byte{before, []byte(begin), with, []byte(end), after}, nil), nil
}

func (d *data) render(name string) ([]byte, error) {
	tables, images := d.tables(), map[string]chart{}
	for _, c := range charts() {
		images[c.file] = c
	}
	t, err := template.New(name).Funcs(template.FuncMap{
		"table": func(name string) (string, error) {
			if f := tables[name]; f != nil {
				return f(), nil
			}
			return "", fmt.Errorf("no table %q", name)
		},
		"plot": func(file string) (string, error) {
			c, ok := images[file]
			if !ok {
				return "", fmt.Errorf("no plot %q", file)
			}
			if d.parts[c.part] == nil {
				return notYet, nil
			}
			return fmt.Sprintf("![%s: %s by %s](benchmarks/%s)", c.title, c.y, c.x, c.file), nil
		},
		"runs": d.runs, "machines": d.machines, "value": d.value, "at": d.at, "num": results.Digits,
		"add": func(a, b any) float64 { return number(a) + number(b) },
		"sub": func(a, b any) float64 { return number(a) - number(b) },
		"mul": func(a, b any) float64 { return number(a) * number(b) },
		"div": func(a, b any) float64 { return number(a) / number(b) },
	}).ParseFS(templates, name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, nil); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// runs is a table of the parts: when, how long, at what load, of which versions.
func (d *data) runs() string {
	var out strings.Builder
	tableHead(&out, "part", "run", "took", "load before, after", "versions")
	for _, name := range d.names {
		p := d.parts[name]
		if p == nil {
			fmt.Fprintf(&out, "\n| %s | *not yet* | | | |", name)
			continue
		}
		quick := ""
		if p.Quick {
			quick = ", **quick: says little**"
		}
		fmt.Fprintf(&out, "\n| %s | %s%s | %d:%02d | %.1f, %.1f | %s |", name, p.Date, quick, int(p.Seconds)/60, int(p.Seconds)%60,
			p.Machine.LoadBefore, p.Machine.LoadAfter, strings.Join(p.Of, "; "))
	}
	return out.String()
}

// machines is what the parts ran on, in one sentence if it was the same.
func (d *data) machines() string {
	var all []string
	for _, name := range d.names {
		if p := d.parts[name]; p != nil {
			m := p.Machine
			text := fmt.Sprintf("%d × %s, %d GiB, %s, %s", m.CPUs, m.CPU, m.MemoryGiB, m.System, m.Go)
			if len(all) == 0 || all[len(all)-1] != text {
				all = append(all, text)
			}
		}
	}
	return strings.Join(all, "; then ")
}

// number is a value of a template, where literals may be whole.
func number(v any) float64 {
	if n, ok := v.(int); ok {
		return float64(n)
	}
	return v.(float64)
}

// value is the median of a quantity in the row of a bench that has this case and
// this N.
func (d *data) value(part, bench, what string, n int, way, quantity string) string {
	return results.Digits(d.at(part, bench, what, n, way, quantity))
}

func (d *data) at(part, bench, what string, n int, way, quantity string) float64 {
	if p := d.parts[part]; p != nil {
		for i := range p.Rows {
			if r := &p.Rows[i]; r.Bench == bench && r.Case == what && r.N == n {
				return results.Of(r.Values(way, quantity)).Median
			}
		}
	}
	return results.Of(nil).Median
}
