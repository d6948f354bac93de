package stage

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
	"github.com/fenceproxy/fenceproxy/test/chaos/nemesis"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
)

// Config says what is on a Stage.
type Config struct {
	// Dir is an empty folder for histories and logs.
	Dir string
	// Proxy is the path of fenceproxy.
	Proxy string
	// Worker is the path of the program that is started with worker.Arg. Defaults
	// to this test program.
	Worker string
	// Locks are the lock services.
	Locks []string
	// AWS is the path of the aws command line; "" if no register is written by it.
	AWS string
	// Break is SQL that is run in the database at last, to break its fence.
	Break string
}

// Stage is all that workers need, and all that can happen to it.
type Stage struct {
	config  Config
	tb      testing.TB
	admin   string // URL of the database as a superuser, past all links
	role    string // of the workers
	access  ways.Access
	direct  ways.Access       // the same past all links
	locks   map[string]string // URLs of the lock services by name
	catalog []nemesis.Fault   // but for those of workers
}

// New starts all of it. It ends with the test.
func New(tb testing.TB, c Config) *Stage {
	tb.Helper()
	s := &Stage{config: c, tb: tb, locks: map[string]string{}}
	s.postgres()
	s.s3()
	for _, name := range c.Locks {
		s.lockService(name)
	}
	return s
}

// link puts a link before an address and its faults into the catalog.
func (s *Stage) link(name, addr string, weight int, p testenv.LinkConfig) *testenv.Link {
	s.tb.Helper()
	l := testenv.NewLink(s.tb, addr, p)
	s.catalog = append(s.catalog, nemesis.OfLink(name, l, weight)...)
	return l
}

func (s *Stage) postgres() {
	s.tb.Helper()
	server := testenv.StartPostgres(s.tb, testenv.PostgresConfig{Settings: map[string]string{"track_commit_timestamp": "on"}})
	s.admin = server.Database(s.tb)
	role, password := server.Role(s.tb, "LOGIN")
	s.role = role
	if err := migrations.Up(s.tb.Context(), s.admin, migrations.Config{Grant: []string{role}}); err != nil {
		s.tb.Fatal(err)
	}
	s.SQL(ways.ControlTables(role))
	if s.config.Break != "" {
		s.SQL(s.config.Break)
	}
	url := testenv.URLAs(s.admin, role, password)
	s.access.Psql = testenv.Program(s.tb, "postgres-18/bin/psql", "/usr/lib/postgresql/15/bin/psql", "psql")
	s.direct = s.access
	s.direct.Postgres = url
	wire := testenv.LinkConfig{Protocol: testenv.PostgresWire}
	s.access.Postgres = testenv.URLVia(url, s.link("worker–Postgres", server.Addr(), 2, wire).Addr())
	s.catalog = append(s.catalog, nemesis.OfServer("Postgres", server, 2, nemesis.Moment)...)
	for i, wait := range []string{"30ms", "2s"} {
		upstream := s.link("proxy–Postgres", server.Addr(), 1, wire)
		p := s.postgresProxy(i+1, upstream.Addr(), wait)
		s.direct.Proxies = append(s.direct.Proxies, testenv.URLVia(url, p.addr))
		s.access.Proxies = append(s.access.Proxies, testenv.URLVia(url, s.link("worker–proxy", p.addr, 1, wire).Addr()))
		s.catalog = append(s.catalog, nemesis.OfServer("proxy", p, 2, nemesis.Moment)...)
	}
}

func (s *Stage) s3() {
	s.tb.Helper()
	server := testenv.StartS3(s.tb)
	s.direct.S3 = ways.Bucket{
		Endpoint: server.Endpoint(), Region: server.Region, AccessKey: server.AccessKey, SecretKey: server.SecretKey, Bucket: server.Bucket(s.tb),
	}
	s.access.S3 = s.direct.S3
	inner := testenv.NewS3Link(s.tb, server.Endpoint())
	s.access.S3.Endpoint = s.link("worker–S3", inner.Endpoint(), 2, testenv.LinkConfig{}).Addr()
	s.catalog = append(s.catalog, nemesis.OfServer("S3", server, 2, nemesis.Moment)...)
	s.catalog = append(s.catalog, nemesis.OfRequests("S3", inner, 4)...)
	for i := range 2 {
		upstream := s.direct.S3
		upstream.Endpoint = s.link("s3proxy–S3", inner.Endpoint(), 1, testenv.LinkConfig{}).Addr()
		p, bucket := s.s3Proxy(i+1, upstream)
		s.direct.S3Proxies = append(s.direct.S3Proxies, bucket)
		bucket.Endpoint = s.link("worker–s3proxy", p.addr, 1, testenv.LinkConfig{}).Addr()
		s.access.S3Proxies = append(s.access.S3Proxies, bucket)
		s.catalog = append(s.catalog, nemesis.OfServer("s3proxy", p, 2, nemesis.Moment)...)
	}
	s.access.AWS = s.config.AWS
	s.direct.AWS = s.config.AWS
}

// SQL runs statements as a superuser, past all links and fences.
func (s *Stage) SQL(text string) {
	s.tb.Helper()
	conn := s.connect()
	defer conn.Close(context.Background())
	if _, err := conn.Exec(s.tb.Context(), text); err != nil {
		s.tb.Fatalf("%s: %v", text, err)
	}
}

func (s *Stage) connect() *pgx.Conn {
	s.tb.Helper()
	conn, err := pgx.Connect(s.tb.Context(), s.admin)
	if err != nil {
		s.tb.Fatal(err)
	}
	return conn
}
