package gauge

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/test/soak/trend"
)

// Redis is one server.
type Redis struct{ Client *goredis.Client }

// Metrics are what it holds.
func (Redis) Metrics() []trend.Metric {
	return []trend.Metric{
		{Name: "redis keys", Noise: noiseFew},
		{Name: "redis bytes", Noise: noiseSize},
		{Name: "redis clients", Noise: noiseFew},
		{Name: "redis channels", Noise: noiseFew},
		{Name: "redis scripts", Noise: noiseFew},
	}
}

// Read reads them.
func (r Redis) Read(ctx context.Context) (map[string]float64, error) {
	info, err := r.Client.Info(ctx, "memory", "clients", "stats", "keyspace").Result()
	if err != nil {
		return nil, fmt.Errorf("ask redis: %w", err)
	}
	keys, err := r.Client.DBSize(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("count keys of redis: %w", err)
	}
	values := map[string]float64{"redis keys": float64(keys)}
	names := map[string]string{
		"used_memory": "redis bytes", "connected_clients": "redis clients", "pubsub_channels": "redis channels", "number_of_cached_scripts": "redis scripts",
	}
	return values, fields(info, ":", names, values)
}

// Etcd is one member.
type Etcd struct{ Client *clientv3.Client }

// Metrics are what it holds.
func (Etcd) Metrics() []trend.Metric {
	return []trend.Metric{
		{Name: "etcd keys", Noise: noiseFew},
		{Name: "etcd leases", Noise: noiseFew},
		{Name: "etcd bytes in use", Noise: 2 * noiseSize},
		{Name: "etcd file bytes", Noise: 1 << 20},
		{Name: "etcd revision", Why: "counts"},
	}
}

// Read reads them.
func (e Etcd) Read(ctx context.Context) (map[string]float64, error) {
	keys, err := e.Client.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return nil, fmt.Errorf("count keys of etcd: %w", err)
	}
	leases, err := e.Client.Leases(ctx)
	if err != nil {
		return nil, fmt.Errorf("count leases of etcd: %w", err)
	}
	status, err := e.Client.Status(ctx, e.Client.Endpoints()[0])
	if err != nil {
		return nil, fmt.Errorf("ask etcd: %w", err)
	}
	return map[string]float64{
		"etcd keys": float64(keys.Count), "etcd leases": float64(len(leases.Leases)), "etcd revision": float64(keys.Header.Revision),
		"etcd bytes in use": float64(status.DbSizeInUse), "etcd file bytes": float64(status.DbSize),
	}, nil
}

// ZooKeeper is one server, which has to know the command mntr.
type ZooKeeper struct{ Addr string }

// Metrics are what it holds.
func (ZooKeeper) Metrics() []trend.Metric {
	return []trend.Metric{
		{Name: "zookeeper nodes", Noise: noiseFew},
		{Name: "zookeeper ephemeral nodes", Noise: noiseFew},
		{Name: "zookeeper watches", Noise: noiseFew},
		{Name: "zookeeper sessions", Noise: noiseFew},
		{Name: "zookeeper data bytes", Noise: 4 << 10},
	}
}

// Read reads them.
func (z ZooKeeper) Read(ctx context.Context) (map[string]float64, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", z.Addr)
	if err != nil {
		return nil, fmt.Errorf("ask ZooKeeper: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, "mntr"); err != nil {
		return nil, fmt.Errorf("ask ZooKeeper: %w", err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return nil, fmt.Errorf("ask ZooKeeper: %w", err)
	}
	values := map[string]float64{}
	return values, fields(string(text), "\t", map[string]string{
		"zk_znode_count": "zookeeper nodes", "zk_ephemerals_count": "zookeeper ephemeral nodes", "zk_watch_count": "zookeeper watches",
		"zk_global_sessions": "zookeeper sessions", "zk_approximate_data_size": "zookeeper data bytes",
	}, values)
}

// fields reads lines of a name and a number, those with a name of ours.
func fields(text, between string, names map[string]string, values map[string]float64) error {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), between)
		name, ok := names[key]
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		values[name] = n
	}
	return nil
}
