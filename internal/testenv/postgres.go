package testenv

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// PostgresURLEnv names a running server to use: a URL with a superuser.
	PostgresURLEnv = "FENCE_TEST_POSTGRES_URL"
	// PostgresVersionsEnv lists the major versions that EachPostgres runs, by
	// commas. The first one is the default version.
	PostgresVersionsEnv = "FENCE_TEST_POSTGRES_VERSIONS"

	defaultPostgresVersions = "15,18"
)

// PostgresServer is a running Postgres.
type PostgresServer struct {
	major   int
	admin   string  // URL of database postgres as a superuser
	cluster machine // nil if the server is not ours
	private bool

	mu    sync.Mutex
	roles []string // not dropped yet, since something still depended on them
}

// machine is what a server runs on: programs of this machine or a container.
type machine interface {
	Kill() error
	Freeze() error
	Thaw() error
	Stop()
	Start(ctx context.Context) error
}

// PostgresConfig says how a private server differs from the shared one.
type PostgresConfig struct {
	// Major is its version; defaults to the default version.
	Major int
	// Fsync makes it write as in production. Without it the shared servers
	// lose data in a power failure, though not when they are killed.
	Fsync bool
	// Settings are further ones, as in postgresql.conf.
	Settings map[string]string
}

// Postgres returns the server of the default version that the tests of this
// process share: the one of FENCE_TEST_POSTGRES_URL, or the first version of
// FENCE_TEST_POSTGRES_VERSIONS that this machine has.
func Postgres(tb testing.TB) *PostgresServer {
	tb.Helper()
	if s := externalPostgres(tb); s != nil {
		return s
	}
	majors := postgresVersions(tb)
	for _, major := range majors {
		if _, err := findPostgres(major); err == nil {
			return PostgresVersion(tb, major)
		}
	}
	return PostgresVersion(tb, majors[0])
}

// PostgresVersion returns the shared server of one major version.
func PostgresVersion(tb testing.TB, major int) *PostgresServer {
	tb.Helper()
	if s := externalPostgres(tb); s != nil && s.major == major {
		return s
	}
	s, err := share("postgres-"+strconv.Itoa(major), func() (*PostgresServer, func(), error) {
		return launchPostgres(PostgresConfig{Major: major})
	})
	need(tb, err)
	return s
}

// EachPostgres runs f as a subtest for each version of
// FENCE_TEST_POSTGRES_VERSIONS, by default 15 and 18.
func EachPostgres(t *testing.T, f func(t *testing.T, s *PostgresServer)) {
	t.Helper()
	for _, major := range postgresVersions(t) {
		t.Run("pg"+strconv.Itoa(major), func(t *testing.T) { f(t, PostgresVersion(t, major)) })
	}
}

// StartPostgres starts a server for this test alone, on a data directory of
// its own, stopped and removed when the test ends. It may be killed.
func StartPostgres(tb testing.TB, c PostgresConfig) *PostgresServer {
	tb.Helper()
	if c.Major == 0 {
		c.Major = Postgres(tb).major
	}
	s, stop, err := launchPostgres(c)
	need(tb, err)
	tb.Cleanup(stop)
	s.private = true
	return s
}

func postgresVersions(tb testing.TB) []int {
	tb.Helper()
	list := os.Getenv(PostgresVersionsEnv)
	if list == "" {
		list = defaultPostgresVersions
	}
	var majors []int
	for field := range strings.SplitSeq(list, ",") {
		major, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil {
			tb.Fatalf("testenv: read %s: %v", PostgresVersionsEnv, err)
		}
		majors = append(majors, major)
	}
	return majors
}

// externalPostgres is the server of FENCE_TEST_POSTGRES_URL, nil without one.
func externalPostgres(tb testing.TB) *PostgresServer {
	tb.Helper()
	url := os.Getenv(PostgresURLEnv)
	if url == "" {
		return nil
	}
	s, err := share("postgres at "+url, func() (*PostgresServer, func(), error) {
		major, err := askMajor(url)
		if err != nil {
			return nil, nil, fmt.Errorf("use %s: %w", PostgresURLEnv, err)
		}
		s := &PostgresServer{major: major, admin: url}
		return s, s.dropRoles, nil
	})
	need(tb, err)
	return s
}

func askMajor(url string) (int, error) {
	var version int
	err := withConn(url, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, "select current_setting('server_version_num')::int").Scan(&version)
	})
	return version / 10000, err
}

// withConn runs f with a connection that ends with it, within 30 seconds.
func withConn(url string, f func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return f(ctx, c)
}

// Major is the server's major version.
func (s *PostgresServer) Major() int { return s.major }

// Addr is the server's host:port.
func (s *PostgresServer) Addr() string { return parseURL(s.admin).Host }

// Kill ends the server as a crash does: kill -9 of the postmaster and of all
// its children at once. For private servers.
func (s *PostgresServer) Kill(tb testing.TB) {
	tb.Helper()
	s.mustOwn(tb)
	if err := s.cluster.Kill(); err != nil {
		tb.Fatalf("testenv: kill postgres: %v", err)
	}
}

// Freeze stops the server where it is, the postmaster and all its children; its
// connections stay open. For private servers.
func (s *PostgresServer) Freeze(tb testing.TB) {
	tb.Helper()
	s.mustOwn(tb)
	if err := s.cluster.Freeze(); err != nil {
		tb.Fatalf("testenv: freeze postgres: %v", err)
	}
}

// Thaw lets a frozen server run on.
func (s *PostgresServer) Thaw(tb testing.TB) {
	tb.Helper()
	s.mustOwn(tb)
	if err := s.cluster.Thaw(); err != nil {
		tb.Fatalf("testenv: thaw postgres: %v", err)
	}
}

// Restart starts the server again on the same data and the same port; one that
// still runs is stopped first, fast but orderly. It returns when the server
// has recovered. For private servers.
func (s *PostgresServer) Restart(tb testing.TB) {
	tb.Helper()
	s.mustOwn(tb)
	s.cluster.Stop()
	if err := s.cluster.Start(context.Background()); err != nil {
		tb.Fatalf("testenv: restart postgres: %v", err)
	}
}

func (s *PostgresServer) mustOwn(tb testing.TB) {
	tb.Helper()
	if !s.private || s.cluster == nil {
		tb.Fatal("testenv: only a server of StartPostgres can be killed")
	}
}
