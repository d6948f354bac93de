// Command servers puts the servers that tests and the demo start, and the
// clients that tests run, where they look for them: etcd and versitygw are
// built, Postgres and what runs in Node.js come from npm, what Debian packages well comes by apt. What
// is there already is left alone, so that a run with nothing to do takes a
// moment.
//
// Run it by `make servers`, or in tools/ by `go run ./servers`; `-for demo` has only
// what the demo starts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// server is one thing to have. have says what is there, or why nothing is.
type server struct {
	name    string
	have    func(ctx context.Context) (found string, err error)
	install func(ctx context.Context) error
	// doing says what install does and how long it may take.
	doing string
}

func main() {
	what := flag.String("for", "test", "what they are for: demo, test, or test-pg-all, which has every supported version of Postgres")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *what)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, what string) error {
	bin, err := filepath.Abs("../.bin")
	if err != nil {
		return err
	}
	if _, err := os.Stat("servers/main.go"); err != nil {
		return errors.New("run it in the folder tools: go run ./servers")
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	list, err := servers(bin, what)
	if err != nil {
		return err
	}
	var failed []error
	for _, s := range list {
		if err := s.ensure(ctx); err != nil {
			fmt.Printf("  FAIL  %-14s %v\n", s.name, err)
			failed = append(failed, fmt.Errorf("%s is missing", s.name))
		}
	}
	return errors.Join(failed...)
}

// servers are what somebody wants, in the order in which they are installed.
func servers(bin, what string) ([]server, error) {
	etcd := etcdProgram(bin, "etcd", "go.etcd.io/etcd/server/v3", "builds it, about 3 minutes the first time")
	switch what {
	case "demo":
		return []server{etcd, anyPostgres(bin)}, nil
	case "test":
		return tested(bin, etcd), nil
	case "test-pg-all":
		return append(tested(bin, etcd), postgres(bin, 14), postgres(bin, 16), postgres(bin, 17)), nil
	}
	return nil, fmt.Errorf("nobody knows what %q needs: -for is demo, test or test-pg-all", what)
}

// tested are what the tests start, with etcd.
func tested(bin string, etcd server) []server {
	return []server{
		etcd,
		etcdProgram(bin, "etcdutl", "go.etcd.io/etcd/etcdutl/v3", "builds it, from what etcd has compiled already"),
		postgres(bin, 15),
		postgres(bin, 18),
		debian("pgbouncer", "pgbouncer", "/usr/sbin/pgbouncer"),
		debian("psql", "postgresql-client"),
		debian("redis-server", "redis-server"),
		versityGW(bin),
		zooKeeper(),
		pgbench(bin),
		file("psycopg2", "python3-psycopg2", "/usr/lib/python3/dist-packages/psycopg2"),
		file("psycopg 3", "python3-psycopg", "/usr/lib/python3/dist-packages/psycopg"),
		debian("javac", "default-jdk-headless"),
		file("pgjdbc", "libpostgresql-jdbc-java", "/usr/share/java/postgresql.jar"),
		nodeClients(bin),
		file("aws cli", "awscli", "/usr/bin/aws"),
		file("boto3", "python3-boto3", "/usr/lib/python3/dist-packages/boto3"),
		file("s3cmd", "s3cmd", "/usr/bin/s3cmd"),
		file("rclone", "rclone", "/usr/bin/rclone"),
		nginx(bin),
	}
}

// ensure installs the server unless it is there, and looks again.
func (s server) ensure(ctx context.Context) error {
	found, err := s.have(ctx)
	if err != nil {
		fmt.Printf("  ....  %-14s %v: %s\n", s.name, err, s.doing)
		start := time.Now()
		if err := s.install(ctx); err != nil {
			return err
		}
		if found, err = s.have(ctx); err != nil {
			return fmt.Errorf("installed, but %w", err)
		}
		found += fmt.Sprintf(" (%v)", time.Since(start).Round(time.Second))
	}
	fmt.Printf("  ok    %-14s %s\n", s.name, found)
	return nil
}
