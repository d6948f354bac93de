// Package results is what the benchmarks have measured, as files of JSON: one for
// each part, with every round of it.
package results

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Part is one run of one part.
type Part struct {
	Name string `json:"name"`
	// Quick results are for trying; they say little.
	Quick   bool     `json:"quick,omitempty"`
	Date    string   `json:"date"`
	Machine Machine  `json:"machine"`
	Of      []string `json:"versions"` // "PostgreSQL 15.4"
	Command string   `json:"command"`
	Seconds float64  `json:"seconds"` // that the run took
	Rows    []Row    `json:"rows"`
}

// Machine is where it ran. Loads are those of the last minute.
type Machine struct {
	CPUs       int     `json:"cpus"`
	CPU        string  `json:"cpu"`
	MemoryGiB  int     `json:"memory_gib"`
	System     string  `json:"system"`
	Go         string  `json:"go"`
	LoadBefore float64 `json:"load_before"`
	LoadAfter  float64 `json:"load_after"`
}

// Row is one setting, in which several ways to do one thing took turns.
type Row struct {
	// Bench is which of the part's benchmarks it is.
	Bench string `json:"bench"`
	// Case is what is done, N how many or how large, in what the bench counts.
	Case string `json:"case,omitempty"`
	N    int    `json:"n,omitempty"`
	Ways []Way  `json:"ways"`
}

// Way is what one way took, or gave, in each round.
type Way struct {
	Name   string  `json:"name"`
	Series []Serie `json:"series"`
}

// Serie has one value for each round, in their order.
type Serie struct {
	Quantity string    `json:"quantity"` // "tx/s", "p50 µs", "server CPU µs"
	Values   []float64 `json:"values"`
}

// Add adds the value of a round.
func (r *Row) Add(way, quantity string, value float64) {
	i := slices.IndexFunc(r.Ways, func(w Way) bool { return w.Name == way })
	if i < 0 {
		i = len(r.Ways)
		r.Ways = append(r.Ways, Way{Name: way})
	}
	w := &r.Ways[i]
	j := slices.IndexFunc(w.Series, func(s Serie) bool { return s.Quantity == quantity })
	if j < 0 {
		j = len(w.Series)
		w.Series = append(w.Series, Serie{Quantity: quantity})
	}
	w.Series[j].Values = append(w.Series[j].Values, value)
}

// Values are those of a way, none if it has none.
func (r *Row) Values(way, quantity string) []float64 {
	for _, w := range r.Ways {
		for _, s := range w.Series {
			if w.Name == way && s.Quantity == quantity {
				return s.Values
			}
		}
	}
	return nil
}

// MarshalJSON keeps five digits: more are noise, and lines that nobody reads.
func (s Serie) MarshalJSON() ([]byte, error) {
	out := fmt.Appendf(nil, `{"quantity":%q,"values":[`, s.Quantity)
	for i, v := range s.Values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%s in round %d is %v", s.Quantity, i+1, v)
		}
		if i > 0 {
			out = append(out, ',')
		}
		digits, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64)
		if err != nil {
			return nil, err
		}
		out = strconv.AppendFloat(out, digits, 'f', -1, 64)
	}
	return append(out, "]}"...), nil
}

// Save writes the part into a folder.
func (p *Part) Save(dir string) error {
	text, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return fmt.Errorf("results of %s: %w", p.Name, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, p.Name+".json"), append(compact(text), '\n'), 0o644)
}

// Load reads a part; nil if it was never measured.
func Load(dir, name string) (*Part, error) {
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &Part{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%s.json: %w", name, err)
	}
	return p, nil
}
