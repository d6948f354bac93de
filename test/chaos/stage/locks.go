package stage

import (
	"fmt"
	"strings"
	"testing"

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
	// ZooKeeper is a single one.
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
		s.catalog = append(s.catalog, nemesis.OfServer("Redis", server, 1, 2*nemesis.Moment)...)
		s.catalog = append(s.catalog, nemesis.Clock("Redis", server, 2), nemesis.RedisDeleted(server.Client(s.tb), 3))
	case Sentinel:
		server := testenv.StartRedisSentinel(s.tb, testenv.RedisConfig{})
		s.locks[name] = fmt.Sprintf("redis+sentinel://%s?master=%s&issuer=chaos", server.Addr(), server.Name())
		// Longer than it takes to promote the other one.
		for _, r := range []*testenv.RedisServer{server.Primary, server.Replica} {
			s.catalog = append(s.catalog,
				nemesis.Stopped("Redis of two", 1, 4*nemesis.Moment, r.Freeze, r.Thaw),
				nemesis.Killed("Redis of two", 1, 4*nemesis.Moment, r.Kill, r.Restart))
		}
	case ZooKeeper:
		server := testenv.StartZooKeeper(s.tb, testenv.ZooKeeperConfig{})
		s.locks[name] = "zk://" + s.link("worker–ZooKeeper", server.Addr(), 1, testenv.LinkConfig{Protocol: testenv.ZooKeeperWire}).Addr() + "/chaos"
		s.catalog = append(s.catalog, nemesis.OfServer("ZooKeeper", server, 1, 2*nemesis.Moment)...)
		s.catalog = append(s.catalog, nemesis.NodeDeleted(server.Addr(), "/chaos", 3))
	default:
		s.tb.Fatalf("no lock service is called %q", name)
	}
}

func (s *Stage) etcd() {
	s.tb.Helper()
	server := testenv.StartEtcd(s.tb, testenv.EtcdConfig{Members: 3})
	var links []string
	for _, m := range server.Members() {
		links = append(links, s.link("worker–etcd", m.Endpoint(), 1, testenv.LinkConfig{Protocol: testenv.HTTP2}).Addr())
		// One at a time, so that there is a quorum, after an election.
		s.catalog = append(s.catalog, nemesis.OfServer("etcd", member{m}, 1, 2*nemesis.Moment)...)
	}
	s.locks[Etcd] = "etcd://" + strings.Join(links, ",") + "/chaos"
	s.catalog = append(s.catalog, nemesis.LeaseRevoked(server.Endpoints(), 3))
}

// member is a member of an etcd as a nemesis.Server.
type member struct{ *testenv.EtcdMember }

// Restart starts a member that was killed.
func (m member) Restart(tb testing.TB) { tb.Helper(); m.Start(tb) }
