// Package parts is what the benchmarks measure, part by part.
package parts

import (
	"context"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/machine"
	"github.com/fenceproxy/fenceproxy/test/bench/results"
	"github.com/fenceproxy/fenceproxy/test/bench/turns"
)

// Part is what can be measured by itself.
type Part struct {
	Name string
	// measure returns what it has measured, and the versions of what.
	measure func(b *bed.Bed, s Size) (rows []results.Row, of []string, err error)
}

// Size is how much of it is measured.
type Size struct {
	Quick bool
	// Root is the folder of the module that is measured.
	Root string
}

// All are the parts in the order in which they run.
func All() []Part {
	return []Part{
		{"guard", benchGuard},
		{"migrations", benchMigrations},
		{"postgres", benchPostgres},
		{"pgproxy", benchPgproxy},
		{"s3store", benchS3Store},
		{"s3proxy", benchS3Proxy},
		{"locks", benchLocks},
		{"marks", benchMarks},
		{"holders", benchHolders},
		{"sessions", benchSessions},
		{"scale", benchScale},
	}
}

// Names are those of all parts.
func Names() (names []string) {
	for _, p := range All() {
		names = append(names, p.Name)
	}
	return names
}

// limit is how long a part may take.
const limit = 30 * time.Minute

// Run measures a part.
func (p Part) Run(ctx context.Context, s Size) (*results.Part, error) {
	m, err := machine.Describe()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	result := &results.Part{Name: p.Name, Quick: s.Quick, Date: start.Format(time.DateOnly), Command: "make bench PART=" + p.Name, Machine: m}
	err = bed.Run(ctx, func(b *bed.Bed) (err error) {
		result.Rows, result.Of, err = p.measure(b, s)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	result.Seconds = time.Since(start).Round(time.Second).Seconds()
	result.Machine.LoadAfter = machine.Load()
	return result, nil
}

// plan is a quick one for trying, or so many rounds of turns.
func (s Size) plan(rounds int, turn time.Duration) turns.Plan {
	if s.Quick {
		return turns.Plan{Rounds: 2, Turn: turn / 4}
	}
	return turns.Plan{Rounds: rounds, Turn: turn}
}

// upTo are the powers of ten to at most.
func (s Size) upTo(most int) (all []int) {
	if s.Quick {
		most /= 10
	}
	for n := 1; n <= most; n *= 10 {
		all = append(all, n)
	}
	return all
}
