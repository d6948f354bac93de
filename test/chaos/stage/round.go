package stage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
	"github.com/fenceproxy/fenceproxy/test/chaos/nemesis"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
	"github.com/fenceproxy/fenceproxy/test/chaos/worker"
)

// TTL is that of the workers' leases, the shortest that etcd grants.
const TTL = 2 * time.Second

// claimLimit is how long a claim may take beside all faults: what it waits before
// it evicts, and much more than an eviction takes.
const claimLimit = ways.ClaimWait + 10*time.Second

// Plan is one resource of a round.
type Plan struct {
	// Locks is one of the lock services of the stage.
	Locks string
	// Ways are those in which its register is written.
	Ways []string
	// Shared lets some of its holders be readers.
	Shared bool
}

// Round is one run of workers against the nemesis.
type Round struct {
	// Name is different for each round of a stage.
	Name string
	Seed uint64
	// Lasts is how long there are faults.
	Lasts time.Duration
	// Every is the mean time from fault to fault, AtOnce how many there are at a
	// time; 0: none.
	Every  time.Duration
	AtOnce int
	// Workers is how many processes there are, Hands how many holders each of them
	// can be at a time.
	Workers, Hands int
	Plans          []Plan
	// Standby gives Postgres a synchronous standby, which is promoted.
	Standby bool
}

// Result is what a round has left.
type Result struct {
	// Dir has its histories, and the logs of its workers.
	Dir   string
	Ops   []history.Op
	Cases []check.Case
	// Faults is how many there were.
	Faults int
	// Found is what was seen to be wrong beside the cases.
	Found []check.Violation
	// Began is how long it took until there were faults; from their end it took
	// Dismissed until the workers had ended, then Settled until a holder had been
	// everywhere, and then Known until all histories had been read.
	Began, Dismissed, Settled, Known time.Duration
	// Slowest names the holder that took longest for that, and how long.
	Slowest string
}

// Run runs a round and returns what is to be judged. It ends early if ctx does. It
// has to be called by the test's goroutine.
func (s *Stage) Run(ctx context.Context, r Round) Result {
	s.tb.Helper()
	began := time.Now()
	dir := filepath.Join(s.config.Dir, r.Name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.tb.Fatal(err)
	}
	record, err := history.Create(dir, r.Name)
	if err != nil {
		s.tb.Fatal(err)
	}
	resources := s.prepare(r)
	var hands []*hand
	catalog := slices.Clone(s.catalog)
	for i := range r.Workers {
		h := &hand{tb: s.tb, program: s.config.Worker, job: worker.Job{
			Name: fmt.Sprintf("%s-w%d", r.Name, i+1), History: dir, Seed: r.Seed<<8 + uint64(i), Hands: r.Hands, TTL: TTL, Resources: resources, Access: s.access,
		}}
		h.hire()
		s.tb.Cleanup(h.kill)
		hands = append(hands, h)
		catalog = append(catalog, h.faults(TTL)...)
	}
	if r.Standby { // while they begin to work
		s.pg.Attach(s.tb)
		catalog = append(catalog, s.standbyFaults()...)
	}
	result := Result{Dir: dir, Began: time.Since(began)}
	ctx, cancel := context.WithTimeout(ctx, r.Lasts)
	defer cancel()
	if r.AtOnce > 0 {
		result.Faults = nemesis.Run(ctx, s.tb, record, nemesis.Schedule{Seed: r.Seed, Every: r.Every, AtOnce: r.AtOnce}, catalog)
	} else {
		<-ctx.Done()
	}
	took := stopwatch(time.Now())
	for _, h := range hands {
		h.stdin.Close() // all at once
	}
	for _, h := range hands {
		h.dismiss()
	}
	result.Dismissed = took.next()
	result.Found, result.Slowest = s.settle(record, resources)
	result.Settled = took.next()
	s.pg.Detach(s.tb)
	if err := record.Close(); err != nil {
		s.tb.Fatal(err)
	}
	if result.Ops, err = history.Load(dir); err != nil {
		s.tb.Fatal(err)
	}
	result.Cases = s.cases(resources, result.Ops)
	s.drop(resources)
	result.Known = took.next()
	return result
}

// stopwatch is when something began.
type stopwatch time.Time

// next returns how long that took, and begins anew.
func (s *stopwatch) next() time.Duration {
	began := time.Time(*s)
	*s = stopwatch(time.Now())
	return time.Since(began)
}

// prepare makes the registers of a round.
func (s *Stage) prepare(r Round) []worker.Resource {
	s.tb.Helper()
	resources := make([]worker.Resource, 0, len(r.Plans))
	for i, p := range r.Plans {
		name := fmt.Sprintf("%s-%d", r.Name, i+1)
		w := worker.Resource{Name: name, Locks: s.locks[p.Locks], Ways: p.Ways, Shared: p.Shared}
		if w.Locks == "" {
			s.tb.Fatalf("there is no lock service %q on this stage", p.Locks)
		}
		if ways.InS3(p.Ways[0]) {
			w.Register.Key = "registers/" + name
		} else {
			w.Register.Table = fmt.Sprintf("%s_%d", r.Name, i+1)
			s.SQL(w.Register.Tables(s.role))
			if slices.Contains(p.Ways, ways.Triggers) {
				s.SQL(w.Register.Protect(name))
			}
		}
		resources = append(resources, w)
	}
	return resources
}

// drop removes the registers of a round, so that a run of many hours needs no more
// room than a short one.
func (s *Stage) drop(resources []worker.Resource) {
	s.tb.Helper()
	for _, r := range resources {
		if table := r.Register.Table; table != "" {
			s.SQL(fmt.Sprintf("DROP TABLE register_%[1]s, written_%[1]s", table))
		}
	}
}
