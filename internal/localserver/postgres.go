package localserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a server that was started here. End it with Stop.
type Server struct {
	// Address is the URL of a Postgres database, as its superuser, or the
	// host:port of etcd.
	Address string
	// Port is the loopback port that it listens on.
	Port int

	stop func()
}

// Stop ends the server, orderly if it can. Its data stays in its folder.
func (s *Server) Stop() { s.stop() }

// Start creates a database cluster in the empty folder dir and serves it. The
// superuser has a random password, part of the returned server's Address. When
// this process is root, the server runs as the user postgres or nobody, who
// then owns dir, and from a copy of p in dir if root alone can reach p. Postgres
// ends when ctx has ended before it is ready.
func (p Postgres) Start(ctx context.Context, dir string) (*Server, error) {
	who, err := ServerAccount()
	if err != nil {
		return nil, err
	}
	if err := who.Own(dir); err != nil {
		return nil, err
	}
	if p, err = p.For(who, filepath.Join(dir, "programs")); err != nil {
		return nil, err
	}
	c := &Cluster{Postgres: p, Account: who, Dir: dir, Password: rand.Text()}
	if err := c.Initialize(ctx); err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	return &Server{Address: c.URL(), Port: c.port, stop: c.Stop}, nil
}

// Cluster is a database cluster and the server on it. Its fields are not to be
// changed once it has started.
type Cluster struct {
	Postgres
	// Account runs the programs, and owns Dir.
	Account *Account
	// Dir has the cluster in its folder data, and gets the logs.
	Dir string
	// Password is that of the superuser, postgres.
	Password string
	// Settings are further ones, as in postgresql.conf.
	Settings map[string]string

	port    int // 0 before the first start
	process *Process
}

// Initialize makes the folder data with initdb.
func (c *Cluster) Initialize(ctx context.Context) error {
	secret := filepath.Join(c.Dir, "password")
	if err := os.WriteFile(secret, []byte(c.Password), 0o600); err != nil {
		return fmt.Errorf("write the password for initdb: %w", err)
	}
	defer os.Remove(secret)
	if err := c.Account.Own(secret); err != nil {
		return err
	}
	log := filepath.Join(c.Dir, "initdb.log")
	run, err := StartLogged(c.command("initdb", "--pgdata", c.data(),
		"--username", "postgres", "--pwfile", secret, "--auth", "scram-sha-256",
		"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"), log, syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-run.Done():
	case <-ctx.Done():
		run.End(time.Second, syscall.SIGTERM)
		return context.Cause(ctx)
	}
	if err := run.Err(); err != nil {
		return fmt.Errorf("initdb of PostgreSQL %d: %w: %s", c.Major, err, tail(log))
	}
	return nil
}

// Start starts the server and returns when it answers, at first on a free port,
// later on the same one again.
func (c *Cluster) Start(ctx context.Context) error {
	var err error
	if c.port != 0 {
		err = c.serve(ctx, c.port)
	} else {
		err = OnFreePorts(1, func(ports []int) error { return c.serve(ctx, ports[0]) })
	}
	if err != nil {
		return fmt.Errorf("start PostgreSQL %d: %w", c.Major, err)
	}
	return nil
}

func (c *Cluster) serve(ctx context.Context, port int) error {
	settings := map[string]string{
		"listen_addresses": "127.0.0.1", "port": strconv.Itoa(port), "unix_socket_directories": "",
		"logging_collector": "off", "log_destination": "stderr",
	}
	maps.Copy(settings, c.Settings)
	cmd := c.command("postgres", append([]string{"-D", c.data()}, SettingArgs(settings)...)...)
	process, err := StartLogged(cmd, filepath.Join(c.Dir, "postgres.log"), syscall.SIGQUIT)
	if err != nil {
		return err
	}
	if err := c.answers(ctx, process, port, startLimit); err != nil {
		process.End(grace, syscall.SIGQUIT)
		return err
	}
	c.port, c.process = port, process
	return nil
}

func (c *Cluster) answers(ctx context.Context, process *Process, port int, limit time.Duration) error {
	return process.AwaitReady(ctx, limit, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, c.urlAt(port))
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}

// Await returns when the server, which has been started, answers; or an error if
// it has ended, or does not answer within limit.
func (c *Cluster) Await(ctx context.Context, limit time.Duration) error {
	return c.answers(ctx, c.process, c.port, limit)
}

// SettingArgs are settings as arguments of the program postgres, in the order
// of their names.
func SettingArgs(settings map[string]string) []string {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// command is one of the programs, run as the account. A server outlives the
// call that starts it, so it has no context.
func (c *Cluster) command(program string, args ...string) *exec.Cmd {
	return c.Account.Run(exec.Command(filepath.Join(c.Bin, program), args...), c.Dir)
}

func (c *Cluster) data() string { return filepath.Join(c.Dir, "data") }

// URL is that of the database postgres, as the superuser, once the server has
// started.
func (c *Cluster) URL() string { return c.urlAt(c.port) }

func (c *Cluster) urlAt(port int) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", c.Password), Host: Loopback(port),
		Path: "/postgres", RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Stop ends the server without waiting for its clients: by the fast shutdown
// or, if that takes too long, the immediate one.
func (c *Cluster) Stop() { c.process.End(grace, syscall.SIGINT, syscall.SIGQUIT) }
