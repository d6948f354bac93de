// Package gobench runs benchmarks that stand beside the code of the module.
package gobench

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/results"
)

// Bench is one run of go test.
type Bench struct {
	Package, Pattern string
	// Time is how long each takes, as -benchtime has it; Rounds how often.
	Time   string
	Rounds int
}

// Command is what a person would type.
func (g Bench) Command() string { return "go " + strings.Join(g.args(), " ") }

func (g Bench) args() []string {
	return []string{
		"test", "-run", "^$", "-bench", g.Pattern, "-benchmem", "-benchtime", g.Time,
		"-count", strconv.Itoa(g.Rounds), "-timeout", "30m", g.Package,
	}
}

// threads are how many, at the end of a name.
var threads = regexp.MustCompile(`-\d+$`)

// Run returns a row for each benchmark, with one way that has no name.
func Run(b *bed.Bed, root string, g Bench) []results.Row {
	bed.Say("%s", g.Command())
	cmd := exec.CommandContext(b.Context(), "go", g.args()...)
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), "FENCE_TEST_REQUIRE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v\n%s", g.Command(), err, out)
	}
	rows, err := parse(out)
	b.Must(err)
	if len(rows) == 0 {
		b.Fatalf("%s measures nothing:\n%s", g.Command(), out)
	}
	return rows
}

// rowOf takes a name apart: InTx/goroutines=8 is the case goroutines, of 8.
func rowOf(name string) results.Row {
	bench, what, _ := strings.Cut(name, "/")
	row := results.Row{Bench: bench, Case: strings.ReplaceAll(what, "_", " ")}
	if before, after, ok := strings.Cut(what, "="); ok {
		if n, err := strconv.Atoi(after); err == nil {
			row.Case, row.N = before, n
		}
	}
	return row
}

func parse(out []byte) ([]results.Row, error) {
	var rows []results.Row
	at := map[string]int{}
	lines := benchfmt.NewReader(bytes.NewReader(out), "go test")
	for lines.Scan() {
		line, ok := lines.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		name := threads.ReplaceAllString(string(line.Name), "")
		i, known := at[name]
		if !known {
			i, at[name] = len(rows), len(rows)
			rows = append(rows, rowOf(name))
		}
		for _, v := range line.Values {
			if v.OrigUnit != "" { // ns/op, as it was written
				v.Value, v.Unit = v.OrigValue, v.OrigUnit
			}
			rows[i].Add("", v.Unit, v.Value)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("output of go test: %w", err)
	}
	return rows, nil
}
