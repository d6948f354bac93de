package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// pgCluster is a data directory and the postmaster on it.
type pgCluster struct {
	bin      string // folder of postgres and initdb
	dir      string // scratch folder: data/ and log
	port     int
	settings []string
	account  *account
	proc     *process
	admin    string
}

// findPostgres returns the folder of the programs of one major version.
func findPostgres(major int) (string, error) {
	own, err := binPath("postgres-"+strconv.Itoa(major), "bin")
	if err != nil {
		return "", err
	}
	for _, dir := range []string{own, fmt.Sprintf("/usr/lib/postgresql/%d/bin", major), fmt.Sprintf("/usr/pgsql-%d/bin", major)} {
		if isExecutable(filepath.Join(dir, "postgres")) && isExecutable(filepath.Join(dir, "initdb")) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("PostgreSQL %d: %w", major, errMissing)
}

// launchPostgres starts a server and returns it with what stops it.
func launchPostgres(c PostgresConfig) (*PostgresServer, func(), error) {
	bin, err := findPostgres(c.Major)
	if errors.Is(err, errMissing) {
		return dockerPostgres(c, err)
	}
	if err != nil {
		return nil, nil, err
	}
	who, err := serverAccount()
	if err != nil {
		return nil, nil, err
	}
	if bin, err = reachablePostgres(bin, who); err != nil {
		return nil, nil, err
	}
	dir, remove, err := scratch(who)
	if err != nil {
		return nil, nil, err
	}
	cluster := &pgCluster{bin: bin, dir: dir, account: who, settings: c.settings()}
	if err := cluster.create(); err != nil {
		remove()
		return nil, nil, fmt.Errorf("start PostgreSQL %d: %w", c.Major, err)
	}
	s := &PostgresServer{major: c.Major, admin: cluster.admin, cluster: cluster}
	return s, func() { cluster.stop(); remove() }, nil
}

// settings are the server's, as command-line arguments.
func (c PostgresConfig) settings() []string {
	onOff := map[bool]string{true: "on", false: "off"}
	all := map[string]string{
		"listen_addresses":          "127.0.0.1",
		"unix_socket_directories":   "",
		"max_connections":           "300",
		"max_prepared_transactions": "64",
		"wal_level":                 "replica",
		"fsync":                     onOff[c.Fsync],
		"full_page_writes":          onOff[c.Fsync],
		"logging_collector":         "off",
		"log_line_prefix":           "%m [%p] %q%u@%d ",
	}
	maps.Copy(all, c.Settings)
	var args []string
	for name, value := range all {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// create fills the data directory and starts the server on a free port.
func (c *pgCluster) create() error {
	template, err := c.template()
	if err != nil {
		return err
	}
	if err := copyTree(template, c.data(), c.account); err != nil {
		return fmt.Errorf("copy data directory: %w", err)
	}
	password, err := os.ReadFile(filepath.Join(template, passwordFile))
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		if c.port, err = freePort(); err != nil {
			return err
		}
		u := url.URL{
			Scheme: "postgres", Host: loopback(c.port), Path: "/postgres",
			User: url.UserPassword("postgres", string(password)), RawQuery: "sslmode=disable",
		}
		c.admin = u.String()
		err = c.start()
		if err == nil || !portTaken(err) || attempt == startAttempts {
			return err
		}
		os.Truncate(c.log(), 0)
	}
}

func (c *pgCluster) data() string { return filepath.Join(c.dir, "data") }
func (c *pgCluster) log() string  { return filepath.Join(c.dir, "log") }

// start starts the postmaster and returns when it answers.
func (c *pgCluster) start() error {
	proc, err := command{
		path:    filepath.Join(c.bin, "postgres"),
		args:    append([]string{"-D", c.data(), "-p", strconv.Itoa(c.port)}, c.settings...),
		logPath: c.log(),
		account: c.account,
		onDeath: syscall.SIGQUIT,
	}.start()
	if err != nil {
		return err
	}
	err = proc.until(time.Minute, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, c.admin)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	if err != nil {
		proc.end(syscall.SIGQUIT)
		return err
	}
	c.proc = proc
	return nil
}

// stop ends the server without waiting for its clients.
func (c *pgCluster) stop() { c.proc.end(syscall.SIGINT, syscall.SIGQUIT) }
