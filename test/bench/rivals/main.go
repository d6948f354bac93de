// Command rivals measures the locks of this project beside those of others, each
// service's on one server, and prints one table in Markdown.
//
//	alone      acquire and release while nobody else is there
//	contended  N contenders, each with a client of its own, that hold the lock for
//	           4 to 6 ms, and then are away for 1 to 3 ms. The handover is from just
//	           before a release until another one has the lock, and the wait from
//	           asking to having; requests are per grant; fairness is the grants of
//	           the least served contender by those of the best served
//	held       1,000 locks held by one client: goroutines at most, and requests per
//	           second
//
// Times are random so that no poll keeps step with them. Who is not away would take
// a lock that is polled for again and again, and hand it over only to a poll that
// comes within the microseconds in between, which then looks fast.
//
// All rivals take turns, round by round, and each figure is the median of the
// rounds. A request is one that the client sends and waits for, or a message on a
// stream; a pipeline is one. ZooKeeper counts them itself, with the pings of all
// sessions.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"
)

// plan is how much to measure.
type plan struct {
	rounds      int
	alone       int // acquisitions and releases in a round
	grants      int // in a round, shared by the contenders
	contenders  []int
	held        int
	rest        time.Duration // for how long locks are held
	only        *regexp.Regexp
	hold, away  time.Duration
	warmUpAlone int
}

var (
	full  = plan{rounds: 3, alone: 2000, grants: 300, held: 1000, rest: ttl, warmUpAlone: 200}
	quick = plan{rounds: 1, alone: 300, grants: 100, held: 1000, rest: ttl / 2, warmUpAlone: 50}
)

func main() {
	short := flag.Bool("quick", false, "one short round")
	only := flag.String("only", "", "only the locks whose name matches this regular expression")
	rounds := flag.Int("rounds", 0, "how many rounds (default 3)")
	flag.Parse()
	p := full
	if *short {
		p = quick
	}
	if *rounds > 0 {
		p.rounds = *rounds
	}
	p.contenders, p.hold, p.away = []int{2, 10, 50}, 5*time.Millisecond, 2*time.Millisecond
	p.only = regexp.MustCompile(*only)
	if err := run(context.Background(), p); err != nil {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, p plan) (err error) {
	bed := newBed()
	defer bed.end()
	defer bed.recovered(&err)
	before := load()
	var results []*result
	for _, f := range []*family{redisFamily(), etcdFamily(), zookeeperFamily()} {
		if !slices.ContainsFunc(f.rivals, func(r rival) bool { return p.only.MatchString(r.name) }) {
			continue
		}
		f.about = f.start(bed)
		measured, err := f.measure(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		results = append(results, measured...)
	}
	printAll(os.Stdout, p, before, results)
	return nil
}

// say tells on stderr how far it is.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
