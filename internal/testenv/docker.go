package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv/container"
)

// DockerEnv is the environment variable that has every server run in a
// container, even where its program is on this machine, if it is "1". What
// cannot be had in a container is skipped then, aloud.
const DockerEnv = "FENCE_TEST_DOCKER"

// errNotContained is what cannot be had in a container: servers that have to
// reach each other, or whose files a test touches.
var errNotContained = errors.New("not to be had in a container")

func onlyDocker() bool { return os.Getenv(DockerEnv) == "1" }

// missingHere is not nil if programs of this machine are not to be looked for.
// Who has no container for such an error has something that is not to be had in
// one.
func missingHere() error {
	if onlyDocker() {
		return fmt.Errorf("%s is 1: a program %w, and %w", DockerEnv, errMissing, errNotContained)
	}
	return nil
}

// notContained is the error of what no container has either.
func notContained(missing error, what string) error {
	return fmt.Errorf("%w; %s is %w", missing, what, errNotContained)
}

// contain starts the container that is the last place to look. If that fails it
// is not for what was wanted.
func contain(c container.Config, missing error) (*container.Container, error) {
	box, err := container.Start(context.Background(), c)
	if err == nil {
		return box, nil
	}
	if onlyDocker() {
		missing = errMissing
	}
	return nil, fmt.Errorf("%w; %w", missing, err)
}

func dockerPostgres(c PostgresConfig, missing error) (*PostgresServer, func(), error) {
	if c.Settings["unix_socket_directories"] != "" {
		return nil, nil, notContained(missing, "a socket of this machine")
	}
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
	box, err := contain(container.Config{
		Image: "postgres:" + strconv.Itoa(c.Major),
		Port:  5432,
		Stop:  "SIGINT", // the fast shutdown, as the image has it too
		Env:   []string{"POSTGRES_PASSWORD=" + password, "POSTGRES_INITDB_ARGS=--encoding=UTF8 --no-locale"},
		Args:  func(int) []string { return localserver.SettingArgs(settings) },
		Ready: func(_ context.Context, port int) error {
			return withConn(admin(port), func(ctx context.Context, c *pgx.Conn) error { return c.Ping(ctx) })
		},
	}, missing)
	if err != nil {
		return nil, nil, err
	}
	return &PostgresServer{major: c.Major, admin: admin(box.Port()), cluster: contained{box}}, box.Remove, nil
}

func dockerEtcd(c EtcdConfig, missing error) (*EtcdServer, func(), error) {
	if c.Members > 1 {
		return nil, nil, notContained(missing, "an etcd of several members")
	}
	box, err := contain(container.Config{
		Image: "quay.io/coreos/etcd:v3.7.3",
		Port:  2379,
		Args: func(port int) []string {
			return append([]string{
				"/usr/local/bin/etcd", "--data-dir", "/tmp/etcd", "--listen-client-urls", "http://0.0.0.0:2379",
				"--advertise-client-urls", "http://" + localserver.Loopback(port), "--log-level", "warn",
			}, c.args()...)
		},
		Ready: localserver.EtcdHealthy,
	}, missing)
	if err != nil {
		return nil, nil, err
	}
	addr := localserver.Loopback(box.Port())
	e := &EtcdServer{endpoints: []string{addr}, members: []*EtcdMember{{addr, contained{box}}}}
	return e.secured(c, box.Remove)
}

func dockerRedis(c RedisConfig, missing error) (*RedisServer, func(), error) {
	if c.ReplicaOf != "" || c.Settings["cluster-enabled"] != "" {
		return nil, nil, notContained(missing, "a Redis that is part of a cluster, or has a primary")
	}
	if c.Clock {
		return nil, nil, notContained(missing, "a Redis with a clock of its own")
	}
	box, err := contain(container.Config{
		Image: "redis:7.4",
		Port:  6379,
		// Without a password it would else serve its own container alone.
		Args: func(int) []string { return append([]string{"redis-server", "--protected-mode", "no"}, c.args()...) },
		Ready: func(ctx context.Context, port int) error {
			return (&RedisServer{addr: localserver.Loopback(port)}).pong(ctx)
		},
	}, missing)
	if err != nil {
		return nil, nil, err
	}
	return &RedisServer{addr: localserver.Loopback(box.Port()), proc: &process{box: box}}, box.Remove, nil
}

func dockerZooKeeper(c ZooKeeperConfig, missing error) (*ZooKeeperServer, func(), error) {
	settings := map[string]string{"maxSessionTimeout": "60000", "extendedTypesEnabled": "true"}
	if !c.Sync {
		settings["forceSync"] = "no"
	}
	maps.Copy(settings, c.Settings)
	var extra []string
	for name, value := range settings {
		extra = append(extra, name+"="+value)
	}
	box, err := contain(container.Config{
		Image: "zookeeper:3.8",
		Port:  2181,
		Env: []string{
			"ZOO_TICK_TIME=500", "ZOO_4LW_COMMANDS_WHITELIST=srvr,mntr", "ZOO_ADMINSERVER_ENABLED=false", "JMXDISABLE=true",
			"ZOO_MAX_CLIENT_CNXNS=0", "ZOO_CFG_EXTRA=" + strings.Join(extra, " "), "SERVER_JVMFLAGS=" + strings.Join(c.Flags, " "),
		},
		Ready: func(ctx context.Context, port int) error { return serves(ctx, localserver.Loopback(port)) },
	}, missing)
	if err != nil {
		return nil, nil, err
	}
	return &ZooKeeperServer{addr: localserver.Loopback(box.Port()), proc: &process{box: box}}, box.Remove, nil
}

func dockerVersityGW(missing error) (*S3Server, func(), error) {
	s := &S3Server{name: "versitygw", Region: defaultS3Region, AccessKey: rand.Text(), SecretKey: rand.Text()}
	box, err := contain(container.Config{
		Image:   "versity/versitygw:v1.8.0",
		Port:    7070,
		Folders: []string{"/data", "/versions"},
		Args: func(int) []string {
			return []string{
				"--access", s.AccessKey, "--secret", s.SecretKey, "--region", s.Region,
				"--port", ":7070", "--quiet", "--keep-alive", "posix", "--versioning-dir", "/versions", "/data",
			}
		},
		Ready: func(ctx context.Context, port int) error { return answersHTTP(ctx, localserver.Loopback(port)) },
	}, missing)
	if err != nil {
		return nil, nil, err
	}
	s.addr = localserver.Loopback(box.Port())
	s.proc = &process{box: box}
	return s, box.Remove, nil
}

// contained is a container in the place of a localserver.Cluster or of an
// etcd's member.
type contained struct{ *container.Container }

// Start starts a server that has ended, on its data and its port.
func (c contained) Start(ctx context.Context) error { return c.Restart(ctx) }
