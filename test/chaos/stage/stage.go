package stage

import (
	"fmt"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/test/chaos/nemesis"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
)

// Config says what is on a Stage.
type Config struct {
	// Dir is an empty folder for histories and logs.
	Dir string
	// Proxy is the path of fenceproxy.
	Proxy string
	// Worker is the path of the program that is started with worker.Arg. Defaults
	// to this test program.
	Worker string
	// Locks are the lock services.
	Locks []string
	// AWS is the path of the aws command line; "" if no register is written by it.
	AWS string
	// Break is SQL that is run in the database at last, to break its fence.
	Break string
}

// Stage is all that workers need, and all that can happen to it.
type Stage struct {
	config  Config
	tb      testing.TB
	admin   string // URL of the database as a superuser, past all faults of links
	role    string // of the workers
	access  ways.Access
	direct  ways.Access       // the same past all links
	tls     certificate       // of proxies
	locks   map[string]string // URLs of the lock services by name
	catalog []nemesis.Fault   // but for those of workers and standbys

	pg         *testenv.PostgresPair
	toPrimary  []*testenv.Link // the links to its primary
	cannotFill error           // why no server has a disk of its own
}

// New starts all of it. It ends with the test.
func New(tb testing.TB, c Config) *Stage {
	tb.Helper()
	s := &Stage{config: c, tb: tb, locks: map[string]string{}, cannotFill: testenv.CannotFill()}
	s.tls = newCertificate(tb, c.Dir)
	s.postgres()
	s.s3()
	for _, name := range c.Locks {
		s.lockService(name)
	}
	return s
}

// link puts a link before an address and its faults into the catalog.
func (s *Stage) link(name, addr string, weight int, p testenv.LinkConfig) *testenv.Link {
	s.tb.Helper()
	l := testenv.NewLink(s.tb, addr, p)
	s.catalog = append(s.catalog, nemesis.OfLink(name, l, weight)...)
	return l
}

// disks is the size of the disks of servers; 0 if there are none, and nothing can
// be full.
func (s *Stage) disks() int64 {
	if s.cannotFill != nil {
		return 0
	}
	return diskSize
}

// Cannot are the faults that cannot be on this machine, each with its reason.
func (s *Stage) Cannot() []string {
	var all []string
	if s.cannotFill != nil {
		all = append(all, fmt.Sprintf("disk full: %v", s.cannotFill))
	}
	return all
}
