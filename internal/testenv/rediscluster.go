package testenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// sentinelName is what the sentinel calls the primary that it watches.
const sentinelName = "main"

// RedisSentinel is a Redis with replicas and one sentinel that promotes one of
// them when the primary is gone.
type RedisSentinel struct {
	// Primary and Replica are what they are at first.
	Primary  *RedisServer
	Replica  *RedisServer
	sentinel *RedisServer
	killed   *RedisServer // by KillPrimary
}

// StartRedisSentinel starts a primary, one replica and one sentinel. It takes
// a primary for dead that does not answer for half a second.
func StartRedisSentinel(tb testing.TB, c RedisConfig) *RedisSentinel {
	tb.Helper()
	return StartRedisSentinelVia(tb, c, func(s *RedisServer) string { return s.addr })
}

// StartRedisSentinelVia is StartRedisSentinel whose servers are reached by others,
// and by each other, at an address that via returns for each: a Link's, of RESP.
func StartRedisSentinelVia(tb testing.TB, c RedisConfig, via func(s *RedisServer) (addr string)) *RedisSentinel {
	tb.Helper()
	bin, err := findRedis()
	need(tb, err)
	s := &RedisSentinel{Primary: StartRedis(tb, c), Replica: StartRedis(tb, c)}
	for _, r := range []*RedisServer{s.Primary, s.Replica} {
		r.announced = via(r)
		_, port, _ := strings.Cut(r.announced, ":")
		need(tb, r.set("replica-announce-port", port))
	}
	host, port, _ := strings.Cut(s.Primary.announced, ":")
	need(tb, s.Replica.set("replicaof", host+" "+port))
	AwaitReplica(tb, s.Replica)

	conf := fmt.Sprintf(`sentinel monitor %[1]s %[2]s %[3]s 1
sentinel down-after-milliseconds %[1]s 500
sentinel failover-timeout %[1]s 3000
`, sentinelName, host, port)
	sentinel, stop, err := tryRedis(bin, conf, []string{"--sentinel"}, (*RedisServer).knowsReplica)
	need(tb, err)
	tb.Cleanup(stop)
	s.sentinel = sentinel
	return s
}

// set changes a setting, from now on and when the server is started again.
func (s *RedisServer) set(name, value string) error {
	return s.ask(func(client *goredis.Client) error {
		ctx := context.Background()
		err := client.ConfigSet(ctx, name, value).Err()
		if name == "replicaof" { // is a command of its own
			host, port, _ := strings.Cut(value, " ")
			err = client.Do(ctx, "REPLICAOF", host, port).Err()
		}
		if err != nil {
			return err
		}
		return client.ConfigRewrite(ctx).Err()
	})
}

// Leads returns which of the two is the primary, to the sentinel.
func (s *RedisSentinel) Leads(ctx context.Context) (*RedisServer, error) {
	client := goredis.NewSentinelClient(&goredis.Options{Addr: s.sentinel.addr, MaxRetries: -1})
	defer client.Close()
	at, err := client.GetMasterAddrByName(ctx, sentinelName).Result()
	if err != nil {
		return nil, fmt.Errorf("ask sentinel for the primary: %w", err)
	}
	for _, r := range []*RedisServer{s.Primary, s.Replica} {
		if r.announced == net.JoinHostPort(at[0], at[1]) {
			return r, nil
		}
	}
	return nil, fmt.Errorf("the sentinel names a primary that there is not: %v", at)
}

// Name is the primary's name, and Addr the sentinel's host:port.
func (s *RedisSentinel) Name() string { return sentinelName }

// Addr is the sentinel's host:port.
func (s *RedisSentinel) Addr() string { return s.sentinel.addr }

// knowsReplica says whether the sentinel could promote a replica.
func (s *RedisServer) knowsReplica(ctx context.Context) error {
	client := goredis.NewSentinelClient(&goredis.Options{Addr: s.addr})
	defer client.Close()
	replicas, err := client.Replicas(ctx, sentinelName).Result()
	if err != nil {
		return err
	}
	for _, r := range replicas {
		if r["flags"] == "slave" && r["master-link-status"] == "ok" {
			return nil
		}
	}
	return errors.New("the sentinel knows no replica")
}

// AwaitReplica waits until a replica has all that its primary has had by now,
// and the primary counts on it: WAIT does too from then on.
func AwaitReplica(tb testing.TB, replica *RedisServer) {
	tb.Helper()
	had := int64(-1) // by the primary, when it was first asked
	err := replica.proc.until(time.Minute, func() error {
		own, err := replica.replication()
		if err != nil {
			return err
		}
		primary := &RedisServer{addr: net.JoinHostPort(own["master_host"], own["master_port"])}
		its, err := primary.replication()
		if err != nil {
			return err
		}
		if had < 0 {
			if had, err = strconv.ParseInt(its["master_repl_offset"], 10, 64); err != nil {
				return err
			}
		}
		has, err := strconv.ParseInt(own["slave_repl_offset"], 10, 64)
		if err != nil || has < had || own["master_link_status"] != "up" || !countsOn(its, replica) {
			return fmt.Errorf("replica is not in step: has %d of %d, link is %s", has, had, own["master_link_status"])
		}
		return nil
	})
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
}

// replication is what the server says of its replication.
func (s *RedisServer) replication() (fields map[string]string, err error) {
	err = s.ask(func(client *goredis.Client) error {
		info, err := client.Info(context.Background(), "replication").Result()
		fields = make(map[string]string)
		for line := range strings.Lines(info) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			fields[key] = value
		}
		return err
	})
	return fields, err
}

// countsOn says whether a primary takes a replica, which it may reach through a
// link, for one that is in step.
func countsOn(its map[string]string, replica *RedisServer) bool {
	_, port, _ := strings.Cut(cmp.Or(replica.announced, replica.addr), ":")
	for key, value := range its {
		if strings.HasPrefix(key, "slave") && strings.Contains(value+",", ",port="+port+",") {
			return strings.Contains(value+",", ",state=online,")
		}
	}
	return false
}

// StartRedisCluster starts a Redis Cluster of n primaries, 1 or 3, without
// replicas, and returns them.
func StartRedisCluster(tb testing.TB, n int) []*RedisServer {
	tb.Helper()
	var nodes []*RedisServer
	for range n {
		bus, err := freePort()
		if err != nil {
			tb.Fatalf("testenv: %v", err)
		}
		nodes = append(nodes, StartRedis(tb, RedisConfig{Settings: map[string]string{
			"cluster-enabled": "yes", "cluster-port": strconv.Itoa(bus), "cluster-node-timeout": "5000",
		}}))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i, node := range nodes {
		if err := node.ask(func(client *goredis.Client) error { return node.join(ctx, client, nodes[0], i, n) }); err != nil {
			tb.Fatalf("testenv: form cluster: %v", err)
		}
	}
	for _, node := range nodes {
		if err := node.proc.until(time.Minute, func() error { return node.clusterOK(ctx, n) }); err != nil {
			tb.Fatalf("testenv: form cluster: %v", err)
		}
	}
	return nodes
}

// join gives the i-th of n nodes its share of the slots and shows it to first.
func (s *RedisServer) join(ctx context.Context, client *goredis.Client, first *RedisServer, i, n int) error {
	const slots = 16384
	if err := client.ClusterAddSlotsRange(ctx, i*slots/n, (i+1)*slots/n-1).Err(); err != nil {
		return err
	}
	// Each needs an epoch of its own before it meets the others.
	if err := client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
		return err
	}
	if s == first {
		return nil
	}
	for i, arg := range first.args {
		if arg == "--cluster-port" {
			host, port, _ := strings.Cut(first.addr, ":")
			return client.Do(ctx, "CLUSTER", "MEET", host, port, first.args[i+1]).Err()
		}
	}
	return errors.New("the first node is in no cluster")
}

func (s *RedisServer) clusterOK(ctx context.Context, n int) error {
	return s.ask(func(client *goredis.Client) error {
		info, err := client.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:16384", fmt.Sprintf("cluster_known_nodes:%d", n)} {
			if !strings.Contains(info, want) {
				return fmt.Errorf("not yet %s", want)
			}
		}
		return nil
	})
}
