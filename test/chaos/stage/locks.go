package stage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/test/chaos/nemesis"
)

// Lock services, as Config has them.
const (
	// Etcd has three members.
	Etcd = "etcd"
	// Redis is a single one without a disk, whose clock can be shifted.
	Redis = "redis"
	// Sentinel is a Redis with a replica that is promoted when it is gone.
	Sentinel = "redis sentinel"
	// ZooKeeper has three members.
	ZooKeeper = "zookeeper"
)

// lockService starts one, with links before it and its faults in the catalog.
func (s *Stage) lockService(name string) {
	s.tb.Helper()
	switch name {
	case Etcd:
		s.etcd()
	case Redis:
		server := testenv.StartRedis(s.tb, testenv.RedisConfig{Clock: true})
		s.locks[name] = "redis://" + s.link("worker–Redis", server.Addr(), 1, testenv.LinkConfig{Protocol: testenv.RESP}).Addr() + "?issuer=chaos"
		s.catalog = append(s.catalog, nemesis.OfServer("Redis", server, 2, 2*nemesis.Moment)...)
		s.catalog = append(s.catalog, nemesis.Clock("Redis", server, 2), nemesis.RedisDeleted(server.Client(s.tb), 3))
	case Sentinel:
		s.sentinel()
	case ZooKeeper:
		s.zooKeeper()
	default:
		s.tb.Fatalf("no lock service is called %q", name)
	}
}

// election is how long a leader has to be silent until there is another one.
const (
	etcdElection      = 1500 * time.Millisecond // at most twice the 500 ms to 1 s of etcd
	zooKeeperElection = 2500 * time.Millisecond // syncLimit, and a vote
)

func (s *Stage) etcd() {
	s.tb.Helper()
	server := testenv.StartEtcd(s.tb, testenv.EtcdConfig{Members: 3})
	var links []string
	var members []nemesis.Server
	for _, m := range server.Members() {
		links = append(links, s.link("worker–etcd", m.Endpoint(), 1, testenv.LinkConfig{Protocol: testenv.HTTP2}).Addr())
		members = append(members, member{m})
	}
	s.locks[Etcd] = "etcd://" + strings.Join(links, ",") + "/chaos"
	// One at a time, so that there is a quorum, after an election.
	s.catalog = append(s.catalog, nemesis.OfMembers("etcd", members, 2, 2*nemesis.Moment)...)
	s.catalog = append(s.catalog, nemesis.OfLeader("etcd", 4, etcdElection, func(testing.TB) nemesis.Server {
		if leader := server.Leader(); leader != nil {
			return member{leader}
		}
		return nil
	})...)
	s.catalog = append(s.catalog, nemesis.LeaseRevoked(server.Endpoints(), 3))
}

// member is a member of an etcd as a nemesis.Server.
type member struct{ *testenv.EtcdMember }

// Restart starts a member that was killed.
func (m member) Restart(tb testing.TB) { tb.Helper(); m.Start(tb) }

func (s *Stage) zooKeeper() {
	s.tb.Helper()
	server := testenv.StartZooKeeperEnsemble(s.tb)
	var links []string
	var members []nemesis.Server
	for _, m := range server.Members() {
		links = append(links, s.link("worker–ZooKeeper", m.Addr(), 1, testenv.LinkConfig{Protocol: testenv.ZooKeeperWire}).Addr())
		members = append(members, m)
	}
	s.locks[ZooKeeper] = "zk://" + strings.Join(links, ",") + "/chaos"
	s.catalog = append(s.catalog, nemesis.OfMembers("ZooKeeper", members, 1, 2*nemesis.Moment)...)
	s.catalog = append(s.catalog, nemesis.OfLeader("ZooKeeper", 4, zooKeeperElection, func(tb testing.TB) nemesis.Server {
		tb.Helper()
		leader, _ := server.Leader(tb)
		return leader
	})...)
	s.catalog = append(s.catalog, nemesis.NodeDeleted(server.Addrs(), "/chaos", 3))
}

// sentinel has links before both servers, through which they reach each other too,
// and before the sentinel. The replica is asynchronous, and a lock may be forgotten
// when it is promoted; its numbers rise all the same (docs/locks.md).
func (s *Stage) sentinel() {
	s.tb.Helper()
	wire := testenv.LinkConfig{Protocol: testenv.RESP}
	server := testenv.StartRedisSentinelVia(s.tb, testenv.RedisConfig{}, func(r *testenv.RedisServer) string {
		return s.link("worker–Redis of two", r.Addr(), 1, wire).Addr()
	})
	s.locks[Sentinel] = fmt.Sprintf("redis+sentinel://%s?master=%s&issuer=chaos", s.link("worker–sentinel", server.Addr(), 1, wire).Addr(), server.Name())
	const two = "Redis of two"
	// Longer, mostly, than it takes to promote the other one.
	s.catalog = append(s.catalog, nemesis.OfMembers(two, []nemesis.Server{server.Primary, server.Replica}, 2, 4*nemesis.Moment)...)
	s.catalog = append(s.catalog, nemesis.Promoted("Redis of two killed, replica promoted", two, 5, server.KillPrimary, server.Rejoin))
}
