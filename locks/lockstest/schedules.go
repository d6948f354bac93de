package lockstest

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/locks"
)

const (
	// SchedulesEnv is how many random schedules to play. Defaults to 40.
	SchedulesEnv = "FENCE_LOCK_SCHEDULES"
	// SeedEnv is the seed of the first of them, to play those of another run
	// again. Defaults to one that is chosen, and told.
	SeedEnv = "FENCE_LOCK_SEED"

	defaultSchedules = 40
	together         = 24 // schedules at a time: most of them wait for something
	enough           = 5  // failures, after which no further schedule is played
)

// testSchedules plays random schedules of several clients: acquire, try, work,
// release, cancel, crash, connections that break and replies that get lost.
// Every other one goes step by step beside a model of the queue; the others let
// all loose at once. A judge looks at each grant.
func testSchedules(s *suite, _ Backend) {
	s.run("random", func(f *fixture) {
		n, first := number(f, SchedulesEnv, defaultSchedules), number(f, SeedEnv, rand.Uint64N(1<<32))
		f.Logf("%d schedules from %s=%d on", n, SeedEnv, first)
		totals, began := map[string]int{}, time.Now()
		var failed atomic.Int32
		var mu sync.Mutex
		var all sync.WaitGroup
		slots := make(chan struct{}, together)
		for i := range n {
			slots <- struct{}{}
			if failed.Load() >= enough {
				break
			}
			all.Go(func() {
				defer func() { <-slots }()
				counts := f.schedule(first+i, &failed)
				mu.Lock()
				defer mu.Unlock()
				for what, n := range counts {
					totals[what] += n
				}
			})
		}
		all.Wait()
		f.Logf("%d schedules in %v: %v", n, time.Since(began).Round(time.Second), totals)
		for _, what := range []string{"grants", "works", "released", "cancelled", "held", "crashes"} {
			if totals[what] == 0 {
				f.Errorf("nothing of %q: too little happened to tell anything", what)
			}
		}
	})
}

//nolint:forbidigo // tests of several packages run this one; their flags are those of go test
func number(tb testing.TB, env string, otherwise uint64) uint64 {
	tb.Helper()
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		tb.Fatalf("%s: %v", env, err)
	}
	return n
}

// schedule plays the schedule of one seed and returns what happened in it.
func (f *fixture) schedule(seed uint64, failed *atomic.Int32) map[string]int {
	j, err := newJudge()
	if err != nil {
		f.Error(err)
		return nil
	}
	st := &stage{TB: f.TB, tell: func(what string) {
		f.Helper()
		failed.Add(1)
		f.Errorf("seed %d: %s; after: %s", seed, what, strings.Join(j.tail(), "; "))
	}}
	st.run(func() {
		own := newFixture(st, f.backend)
		own.service = f.service
		p := &play{fixture: own, judge: j, rng: rand.New(rand.NewPCG(seed, 0))}
		p.enter()
		if seed%2 == 0 {
			p.stepByStep()
		} else {
			p.atOnce()
		}
		if err := j.closes(own.resource); err != nil {
			own.Fatal(err)
		}
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.counts)
}

// client is one process of a schedule.
type client struct {
	locks.Locker
	link   Link
	mortal bool // its leases are short, so that it may crash
	flaky  bool // replies to it got lost: its acquisitions may fail
}

// play is one schedule.
type play struct {
	*fixture
	judge   *judge
	rng     *rand.Rand
	clients []*client
	queue   []*entry // those that hold the lock and those that wait, in the order of arrival
}

// enter opens the clients: one that may crash, and two that live.
func (p *play) enter() {
	for i := range 3 {
		c := &client{mortal: i == 0}
		ttl := long
		if c.mortal {
			ttl = p.backend.TTL
		}
		c.Locker, c.link = p.openVia(ttl)
		p.clients = append(p.clients, c)
	}
}

// mayGet reports whether err is one that a client may get for an acquisition or
// a release that is none of its own doing.
func (c *client) mayGet(err error) bool {
	return c.flaky || c.mortal && errors.Is(err, locks.ErrLost)
}

// way is one of the four ways to acquire.
func (c *client) way(shared, try bool) acquireFunc {
	switch {
	case shared && try:
		return c.TryAcquireShared
	case shared:
		return c.AcquireShared
	case try:
		return c.TryAcquire
	}
	return c.Acquire
}
