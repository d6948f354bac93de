package testenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/url"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv/container"
)

// dockerPostgres is the last place to look. Such a server cannot be killed and
// restarted by a test.
func dockerPostgres(c PostgresConfig, missing error) (*PostgresServer, func(), error) {
	password := rand.Text()
	admin := func(port int) string {
		u := url.URL{
			Scheme: "postgres", Host: localserver.Loopback(port), Path: "/postgres",
			User: url.UserPassword("postgres", password), RawQuery: "sslmode=disable",
		}
		return u.String()
	}
	settings := map[string]string{"listen_addresses": "*"}
	maps.Copy(settings, c.settings())
	port, stop, err := container.Run(container.Config{
		Image: "postgres:" + strconv.Itoa(c.Major),
		Port:  5432,
		Env:   []string{"POSTGRES_PASSWORD=" + password, "POSTGRES_INITDB_ARGS=--encoding=UTF8 --no-locale"},
		Args:  func(int) []string { return localserver.SettingArgs(settings) },
		Ready: func(_ context.Context, port int) error {
			return withConn(admin(port), func(ctx context.Context, c *pgx.Conn) error { return c.Ping(ctx) })
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%w; %w", missing, err)
	}
	return &PostgresServer{major: c.Major, admin: admin(port)}, stop, nil
}

// dockerEtcd is the last place to look: a single node, without authentication,
// that a test cannot stop.
func dockerEtcd(c EtcdConfig, missing error) (*EtcdServer, func(), error) {
	if c.Members > 1 || c.Auth {
		return nil, nil, fmt.Errorf("%w; in a container there is no cluster and no authentication", missing)
	}
	port, stop, err := container.Run(container.Config{
		Image: "quay.io/coreos/etcd:v3.7.3",
		Port:  2379,
		Args: func(port int) []string {
			return []string{
				"/usr/local/bin/etcd", "--listen-client-urls", "http://0.0.0.0:2379", "--unsafe-no-fsync",
				"--advertise-client-urls", "http://" + localserver.Loopback(port),
			}
		},
		Ready: localserver.EtcdHealthy,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%w; %w", missing, err)
	}
	return &EtcdServer{endpoints: []string{localserver.Loopback(port)}}, stop, nil
}

// dockerRedis is the last place to look: a server that forgets everything when
// it ends, and that a test cannot stop.
func dockerRedis(c RedisConfig, missing error) (*RedisServer, func(), error) {
	if c.Persist || c.ReplicaOf != "" || c.Settings["cluster-enabled"] != "" {
		return nil, nil, fmt.Errorf("%w; in a container there is no persistence, replica or cluster", missing)
	}
	port, stop, err := container.Run(container.Config{
		Image: "redis:7.4",
		Port:  6379,
		Args:  func(int) []string { return append([]string{"redis-server"}, c.args()...) },
		Ready: func(ctx context.Context, port int) error {
			return (&RedisServer{addr: localserver.Loopback(port)}).pong(ctx)
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%w; %w", missing, err)
	}
	return &RedisServer{addr: localserver.Loopback(port)}, stop, nil
}
