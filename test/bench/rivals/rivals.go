// Package rivals measures the locks of this project beside those of others, each
// service's on one server.
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
package rivals

import (
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/results"
	"github.com/fenceproxy/fenceproxy/test/bench/scene"
)

// plan is how much to measure.
type plan struct {
	rounds      int
	alone       int // acquisitions and releases in a round
	grants      int // in a round, shared by the contenders
	contenders  []int
	held        int
	rest        time.Duration // for how long locks are held
	hold, away  time.Duration
	warmUpAlone int
}

var (
	full  = plan{rounds: 5, alone: 2000, grants: 300, held: 1000, rest: ttl, warmUpAlone: 200}
	quick = plan{rounds: 1, alone: 300, grants: 100, held: 100, rest: ttl / 2, warmUpAlone: 50}
)

// Run measures all of them. It returns the rows alone, contended and held, and the
// versions of the servers and of the clients.
func Run(b *bed.Bed, short bool) (rows []results.Row, of []string, err error) {
	p := full
	if short {
		p = quick
	}
	p.contenders, p.hold, p.away = []int{2, 10, 50}, 5*time.Millisecond, 2*time.Millisecond
	var all []*result
	for _, f := range []*family{redisFamily(), etcdFamily(), zookeeperFamily()} {
		of = append(of, f.start(b))
		measured, err := f.measure(b.Context(), p)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.name, err)
		}
		all = append(all, measured...)
	}
	for _, module := range []string{
		"github.com/bsm/redislock", "github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9",
		"go.etcd.io/etcd/client/v3", "github.com/go-zookeeper/zk",
	} {
		of = append(of, scene.Module(module))
	}
	return rowsOf(p, all), of, nil
}
