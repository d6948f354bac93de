package report

import (
	"encoding/json"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Figures are what a Report prints, for programs.
type Figures struct {
	Title string `json:"title"`
	Seed  uint64 `json:"seed"`
	// Again is the command that has the same faults in the same order.
	Again string `json:"again"`
	// Seconds is how long the run went on, pauses between rounds included.
	Seconds float64 `json:"seconds"`
	Rounds  int     `json:"rounds"`
	Faults  int     `json:"faults"`
	// Writes were begun, and of those Acknowledged; Tokens is under how many grants.
	Writes       int      `json:"writes"`
	Acknowledged int      `json:"acknowledged"`
	Tokens       int      `json:"tokens"`
	Violations   []string `json:"violations"`
	Cannot       []string `json:"cannot"`
	// Ways has what was done by each way in.
	Ways map[string]Way `json:"ways"`
	// Table has for each fault how often it was, and by way in the writes that were
	// under way meanwhile.
	Table map[string]Row `json:"table"`
}

// Way is one way in.
type Way struct {
	Writes       int `json:"writes"`
	Acknowledged int `json:"acknowledged"`
	Refused      int `json:"refused"`
	NotApplied   int `json:"not_applied"`
	Unknown      int `json:"unknown"`
	Reads        int `json:"reads"`
	Claims       int `json:"claims"`
	// ClaimMedian and ClaimLongest are of those that passed, in milliseconds.
	ClaimMedian  float64 `json:"claim_median_ms"`
	ClaimLongest float64 `json:"claim_longest_ms"`
	// Violations are by invariant.
	Violations map[string]int `json:"violations"`
}

// Row is one fault.
type Row struct {
	Times int             `json:"times"`
	Ways  map[string]Cell `json:"ways"`
}

// Cell is the writes by one way in that were under way during a fault.
type Cell struct {
	Writes       int `json:"writes"`
	Acknowledged int `json:"acknowledged"`
	Refused      int `json:"refused"`
	Unknown      int `json:"unknown"`
	Violations   int `json:"violations"`
}

// Figures adds up the report.
func (r *Report) Figures() Figures {
	f := Figures{
		Title: r.Title, Seed: r.Seed, Again: r.Again, Seconds: r.Lasted.Seconds(), Rounds: r.rounds, Faults: r.Faults(), Writes: r.Writes(),
		Acknowledged: r.Acknowledged(), Tokens: r.tokens, Violations: []string{}, Cannot: append([]string{}, r.Cannot...), Ways: map[string]Way{}, Table: map[string]Row{},
	}
	for _, v := range r.violations {
		f.Violations = append(f.Violations, v.String())
	}
	for name, w := range r.ways {
		median, longest := w.took()
		f.Ways[name] = Way{
			Writes: w.writes(), Acknowledged: w.written[guard.Applied], Refused: w.written[guard.Refused], NotApplied: w.written[guard.NotApplied],
			Unknown: w.written[guard.Unknown], Reads: w.reads, Claims: w.claims,
			ClaimMedian: 1e3 * median.Seconds(), ClaimLongest: 1e3 * longest.Seconds(), Violations: w.invalid,
		}
	}
	for name, times := range r.faults {
		f.Table[name] = Row{times, map[string]Cell{}}
	}
	for at, c := range r.cells {
		f.Table[at.fault].Ways[at.way] = Cell{c.writes, c.acknowledged, c.refused, c.unknown, c.violations}
	}
	return f
}

// JSON is the Figures as text.
func (r *Report) JSON() ([]byte, error) { return json.MarshalIndent(r.Figures(), "", "\t") }
