// Package lockstest is the conformance suite of locks.Locker: what every lock
// service has to do, run against a real one.
package lockstest

import (
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

// Backend is a kind of lock service, for Exercise.
type Backend struct {
	// Shared returns a service that tests share: it is never restarted.
	Shared func(tb testing.TB) Service
	// Private starts a service for one test, which may restart it.
	Private func(tb testing.TB) Service
	// Link opens a link to target, host:port, that ends with the test.
	Link func(tb testing.TB, target string) Link
	// Counts tells which of a link's requests make a lock: those whose replies
	// are dropped in turn. It gets their path, if the protocol has one.
	Counts func(path string) bool
	// TTL is a short one that holds on a busy machine, for tests in which a
	// lease is lost; the others use thirty seconds.
	TTL time.Duration
	// Patience is how long a test waits for what must happen. Defaults to a
	// minute.
	Patience time.Duration
}

// Service is one running lock service. Its methods fail the test themselves.
type Service interface {
	// Addr is the service's host:port.
	Addr() string
	// Open returns a Locker on a client of its own that reaches the service at
	// addr; both are closed when the test ends. All the Lockers of a Service
	// see each other's locks.
	Open(tb testing.TB, addr string, ttl time.Duration) locks.Locker
	// Entries is how many hold the lock of resource or wait for it, as the
	// service sees it.
	Entries(tb testing.TB, resource string) int
	// Break removes the lock that token stands for, or the place in the queue,
	// as an operator would. A zero token means the youngest entry.
	Break(tb testing.TB, resource string, token guard.Token)
	// Restart restarts the service on its data.
	Restart(tb testing.TB)
}

// Link is a cuttable link, as testenv.Link is.
type Link interface {
	Addr() string
	DropReplyTo(match func(path string) bool, n int)
	Delay(d time.Duration)
	Freeze()
	Thaw()
	Cut()
	Refuse(refuse bool)
}

// Exercise runs the suite against b.
func Exercise(t *testing.T, b Backend) {
	t.Helper()
	for _, p := range parts(b) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range p.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(newFixture(t, b))
				})
			}
		})
	}
}

// suite is one part of Exercise. Its cases run on any testing.TB, so that the
// tests of this package can see them fail.
type suite struct {
	name  string
	cases []testCase
}

type testCase struct {
	name string
	run  func(f *fixture)
}

func (s *suite) run(name string, run func(f *fixture)) {
	s.cases = append(s.cases, testCase{name, run})
}

func parts(b Backend) []*suite {
	var all []*suite
	for _, p := range []struct {
		name string
		add  func(s *suite, b Backend)
	}{
		{"modes", testModes},
		{"queue", testQueue},
		{"names", testNames},
		{"many", testMany},
		{"cancel", testCancel},
		{"release", testRelease},
		{"lost", testLost},
		{"replies", testReplies},
		{"renewals", testRenewals},
		{"hang", testHang},
		{"order", testOrder},
		{"do", testDo},
		{"schedules", testSchedules},
	} {
		s := &suite{name: p.name}
		p.add(s, b)
		all = append(all, s)
	}
	return all
}
