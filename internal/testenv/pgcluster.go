package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
	for name, value := range c.Settings {
		all[name] = value
	}
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
	if err := c.copyTree(template, c.data()); err != nil {
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

// kill ends the postmaster and its children as a crash does. They all stop
// before the first one dies, so that none can act on another's death.
func (c *pgCluster) kill() error {
	if err := c.proc.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	children, err := childrenOf(c.proc.Pid)
	if err != nil {
		return err
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range children {
			// One that has just ended by itself is as dead as we want it.
			if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
	c.proc.end(syscall.SIGKILL)
	deadline := time.Now().Add(10 * time.Second)
	for _, pid := range children {
		for parentOf(pid) != 0 {
			if time.Now().After(deadline) {
				return fmt.Errorf("child %d still runs", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// childrenOf returns the processes whose parent is pid.
func childrenOf(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, e := range entries {
		if child, err := strconv.Atoi(e.Name()); err == nil && parentOf(child) == pid {
			children = append(children, child)
		}
	}
	return children, nil
}

// parentOf is the parent of a process, 0 if that has ended.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// proc(5): pid (comm) state ppid …, and comm may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 || fields[0] == "Z" {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

const passwordFile = "superuser-password"

// template returns a data directory as initdb leaves it, made once for each
// build of Postgres and kept in .bin/cache. Several test processes may want it
// at the same time.
func (c *pgCluster) template() (string, error) {
	version, err := exec.Command(filepath.Join(c.bin, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask postgres for its version: %w", err)
	}
	cache, err := binPath("cache")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	dir := filepath.Join(cache, strings.NewReplacer(" ", "_", "/", "_", "(", "", ")", "").Replace(strings.TrimSpace(string(version))))
	lock, err := lockFile(dir+".lock", syscall.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := c.initdb(dir); err != nil {
		return "", err
	}
	return dir, nil
}

// initdb makes dir, whole or not at all. It runs in a folder of its own, for
// the account that Postgres runs as may not be allowed to write to the cache.
func (c *pgCluster) initdb(dir string) error {
	work, remove, err := scratch(c.account)
	if err != nil {
		return err
	}
	defer remove()
	password := filepath.Join(work, passwordFile)
	if err := os.WriteFile(password, []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	if err := c.account.own(password); err != nil {
		return err
	}
	data := filepath.Join(work, "data")
	cmd := c.account.command(work, filepath.Join(c.bin, "initdb"), "--pgdata="+data, "--username=postgres",
		"--pwfile="+password, "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := os.Rename(password, filepath.Join(data, passwordFile)); err != nil {
		return err
	}
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := (&pgCluster{}).copyTree(data, partial); err != nil {
		return fmt.Errorf("keep data directory: %w", err)
	}
	return os.Rename(partial, dir)
}

// copyTree copies a data directory, for the account to own.
func (c *pgCluster) copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			err = os.Mkdir(target, 0o700)
		} else {
			var content []byte
			if content, err = os.ReadFile(path); err == nil {
				err = os.WriteFile(target, content, 0o600)
			}
		}
		if err != nil {
			return err
		}
		return c.account.own(target)
	})
}
