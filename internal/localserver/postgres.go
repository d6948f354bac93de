package localserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrMissing is behind the error of a server whose program is not on this
// machine.
var ErrMissing = errors.New("is not on this machine")

// Postgres is the program of one PostgreSQL version on this machine.
type Postgres struct {
	// Bin is the folder with initdb and postgres.
	Bin string
	// Major is the version, e.g. 15.
	Major int
}

// oldestPostgres is the first version that the fence runs on.
const oldestPostgres = 14

// FindPostgres returns the newest PostgreSQL in the folders of Debian
// (/usr/lib/postgresql), in the folders postgres-* below each of dirs, or in
// PATH. When this process is root it passes over those that the user whom the
// server is to run as cannot reach, like those below /root. Without one its
// error matches ErrMissing.
func FindPostgres(ctx context.Context, dirs ...string) (Postgres, error) {
	patterns := []string{"/usr/lib/postgresql/*/bin"}
	for _, dir := range dirs {
		patterns = append(patterns,
			filepath.Join(dir, "postgres-*", "bin"), filepath.Join(dir, "postgres-*", "native", "bin"))
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			patterns = append(patterns, filepath.Dir(path))
		}
	}
	best, hidden := Postgres{}, ""
	for _, pattern := range patterns {
		bins, _ := filepath.Glob(pattern) // the patterns are well-formed
		for _, bin := range bins {
			p, ok := postgresIn(ctx, bin)
			switch {
			case !ok || p.Major <= best.Major:
			case os.Geteuid() == 0 && !reachable(filepath.Join(p.Bin, "postgres")):
				hidden = fmt.Sprintf(" (the one in %s can be reached by root only, and refuses to run as root)", p.Bin)
			default:
				best = p
			}
		}
	}
	if best.Major == 0 {
		return best, fmt.Errorf("PostgreSQL %d or later %w%s", oldestPostgres, ErrMissing, hidden)
	}
	return best, nil
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

func postgresIn(ctx context.Context, bin string) (Postgres, bool) {
	bin, err := filepath.EvalSymlinks(bin)
	if err != nil {
		return Postgres{}, false
	}
	for _, name := range []string{"initdb", "postgres"} {
		if info, err := os.Stat(filepath.Join(bin, name)); err != nil || info.Mode()&0o111 == 0 {
			return Postgres{}, false
		}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return Postgres{}, false
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return Postgres{}, false
	}
	major, err := strconv.Atoi(string(match[1]))
	return Postgres{Bin: bin, Major: major}, err == nil && major >= oldestPostgres
}

// Server is a server that was started here. End it with Stop.
type Server struct {
	// Address is the URL of a Postgres database, as its superuser, or the
	// host:port of etcd.
	Address string
	// Port is the loopback port that it listens on.
	Port int

	process *Process
	stop    []syscall.Signal
}

// Stop ends the server, orderly if it can. Its data stays in its folder.
func (s *Server) Stop() { s.process.End(10*time.Second, s.stop...) }

// Start creates a database cluster in the empty folder dir and serves it. The
// superuser has a random password, part of the returned server's Address. When
// this process is root, the server runs as the user postgres or nobody, who
// then owns dir. Postgres ends when ctx has ended before it is ready.
func (p Postgres) Start(ctx context.Context, dir string) (*Server, error) {
	owner, err := serverAccount()
	if err != nil {
		return nil, err
	}
	if err := owner.own(dir); err != nil {
		return nil, fmt.Errorf("give %s to user %s: %w", dir, owner.name, err)
	}
	password := rand.Text()
	if err := p.initialize(ctx, owner, dir, password); err != nil {
		return nil, err
	}
	var server *Server
	for range startAttempts {
		if server, err = p.serve(ctx, owner, dir, password); !portTaken(err) {
			break
		}
	}
	return server, err
}

func (p Postgres) initialize(ctx context.Context, owner *account, dir, password string) error {
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		return fmt.Errorf("write the password for initdb: %w", err)
	}
	if err := owner.own(secret); err != nil {
		return fmt.Errorf("give the password to initdb: %w", err)
	}
	defer os.Remove(secret)
	cmd := owner.run(dir, exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(p.Bin, "initdb"), "--pgdata", filepath.Join(dir, "data"),
		"--username", "postgres", "--pwfile", secret, "--auth", "scram-sha-256",
		"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"))
	log := filepath.Join(dir, "initdb.log")
	run, err := startLogged(cmd, log, syscall.SIGKILL)
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
		return fmt.Errorf("initdb of PostgreSQL %d: %w: %s", p.Major, err, tail(log))
	}
	return nil
}

func (p Postgres) serve(ctx context.Context, owner *account, dir, password string) (*Server, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	cmd := owner.run(dir, exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(p.Bin, "postgres"), "-D", filepath.Join(dir, "data"),
		"-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(port), "-c", "unix_socket_directories=",
		"-c", "logging_collector=off", "-c", "log_destination=stderr"))
	log := filepath.Join(dir, "postgres.log")
	process, err := startLogged(cmd, log, syscall.SIGQUIT)
	if err != nil {
		return nil, err
	}
	address := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", password), Host: loopback(port),
		Path: "/postgres", RawQuery: "sslmode=disable",
	}
	// SIGINT is the fast shutdown, SIGQUIT the immediate one.
	server := &Server{Address: address.String(), Port: port, process: process, stop: []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT}}
	err = until(ctx, process, log, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, server.Address)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	if err != nil {
		server.Stop()
		return nil, fmt.Errorf("start PostgreSQL %d: %w", p.Major, err)
	}
	return server, nil
}

// startLogged starts cmd with its output in the file log. It runs in the root
// folder: the one with its data may be out of its reach until it has the
// capability to ignore permissions, which is after it has changed folders.
func startLogged(cmd *exec.Cmd, log string, onDeath syscall.Signal) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", cmd.Path, err)
	}
	defer file.Close()
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = file, file
	return Start(cmd, onDeath)
}
