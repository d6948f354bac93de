package testenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// container is an image and how it is run.
type container struct {
	image string
	port  int // that it listens on
	env   []string
	args  func(published int) []string
	// ready says whether the server answers at the published port.
	ready func(published int) error
}

// run starts the container on a loopback port, and returns the port and what
// stops the container. It runs below a docker command that is our child, and
// is stopped through it, also when this process dies.
func (c container) run() (port int, stop func(), err error) {
	if err := exec.Command("docker", "version").Run(); err != nil {
		return 0, nil, fmt.Errorf("no Docker engine answers: %w", err)
	}
	dir, remove, err := scratch(nil)
	if err != nil {
		return 0, nil, err
	}
	for attempt := 1; ; attempt++ {
		var proc *process
		if port, proc, err = c.try(dir, attempt); err == nil {
			return port, func() { proc.end(syscall.SIGTERM, syscall.SIGTERM); remove() }, nil
		}
		if !portTaken(err) || attempt == startAttempts {
			remove()
			return 0, nil, fmt.Errorf("run container of %s: %w", c.image, err)
		}
	}
}

func (c container) try(dir string, attempt int) (int, *process, error) {
	port, err := freePort()
	if err != nil {
		return 0, nil, err
	}
	docker, err := exec.LookPath("docker")
	if err != nil {
		return 0, nil, err
	}
	args := []string{"run", "--rm", "--sig-proxy=true", "--publish", fmt.Sprintf("%s:%d", loopback(port), c.port)}
	for _, e := range c.env {
		args = append(args, "--env", e)
	}
	args = append(append(args, c.image), c.args(port)...)
	log := filepath.Join(dir, "log"+strconv.Itoa(attempt))
	proc, err := command{path: docker, args: args, logPath: log, onDeath: syscall.SIGTERM}.start()
	if err != nil {
		return 0, nil, err
	}
	// The image may have to be pulled first.
	if err := proc.until(5*time.Minute, func() error { return c.ready(port) }); err != nil {
		proc.end(syscall.SIGTERM)
		return 0, nil, err
	}
	return port, proc, nil
}

// dockerPostgres is the last place to look. Such a server cannot be killed and
// restarted by a test.
func dockerPostgres(c PostgresConfig, missing error) (*PostgresServer, func(), error) {
	password := rand.Text()
	admin := func(port int) string {
		u := url.URL{
			Scheme: "postgres", Host: loopback(port), Path: "/postgres",
			User: url.UserPassword("postgres", password), RawQuery: "sslmode=disable",
		}
		return u.String()
	}
	port, stop, err := container{
		image: "postgres:" + strconv.Itoa(c.Major),
		port:  5432,
		env:   []string{"POSTGRES_PASSWORD=" + password, "POSTGRES_INITDB_ARGS=--encoding=UTF8 --no-locale"},
		args: func(int) []string {
			return append(c.settings(), "-c", "listen_addresses=*", "-c", "unix_socket_directories=/var/run/postgresql")
		},
		ready: func(port int) error {
			return withConn(admin(port), func(ctx context.Context, conn *pgx.Conn) error { return conn.Ping(ctx) })
		},
	}.run()
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
	port, stop, err := container{
		image: "quay.io/coreos/etcd:v3.7.3",
		port:  2379,
		args: func(published int) []string {
			return []string{
				"/usr/local/bin/etcd", "--listen-client-urls", "http://0.0.0.0:2379", "--unsafe-no-fsync",
				"--advertise-client-urls", "http://" + loopback(published),
			}
		},
		ready: func(port int) error {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return (&EtcdMember{addr: loopback(port)}).healthy(ctx)
		},
	}.run()
	if err != nil {
		return nil, nil, fmt.Errorf("%w; %w", missing, err)
	}
	return &EtcdServer{endpoints: []string{loopback(port)}}, stop, nil
}

// dockerRedis is the last place to look: a server that forgets everything when
// it ends, and that a test cannot stop.
func dockerRedis(c RedisConfig, missing error) (*RedisServer, func(), error) {
	if c.Persist || c.ReplicaOf != "" || c.Settings["cluster-enabled"] != "" {
		return nil, nil, fmt.Errorf("%w; in a container there is no persistence, replica or cluster", missing)
	}
	port, stop, err := container{
		image: "redis:7.4",
		port:  6379,
		args:  func(int) []string { return append([]string{"redis-server"}, c.args()...) },
		ready: func(port int) error {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return (&RedisServer{addr: loopback(port)}).pong(ctx)
		},
	}.run()
	if err != nil {
		return nil, nil, fmt.Errorf("%w; %w", missing, err)
	}
	return &RedisServer{addr: loopback(port)}, stop, nil
}
