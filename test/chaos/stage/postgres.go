package stage

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
	"github.com/fenceproxy/fenceproxy/test/chaos/nemesis"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
)

// diskSize is that of the disk of each server that has its own, in bytes: more than
// any round needs.
const diskSize = 1 << 30

// postgres starts the database, with two proxies in front of it.
func (s *Stage) postgres() {
	s.tb.Helper()
	s.pg = testenv.StartPostgresPair(s.tb, testenv.PostgresConfig{Settings: map[string]string{"track_commit_timestamp": "on"}}, s.disks())
	first := s.pg.Primary()
	direct := testenv.NewLink(s.tb, first.Addr(), testenv.LinkConfig{})
	s.toPrimary = append(s.toPrimary, direct)
	s.admin = testenv.URLVia(first.Database(s.tb), direct.Addr())
	role, password := first.Role(s.tb, "LOGIN")
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
	s.access.Postgres = testenv.URLVia(url, s.linkToPrimary("worker–Postgres", 2).Addr())
	s.catalog = append(s.catalog, nemesis.OfServer(database, s.pg, 6, nemesis.Moment)...)
	if s.cannotFill == nil {
		s.catalog = append(s.catalog, nemesis.DiskFull(database, s.pg, 4))
	}
	s.proxies(url)
}

// proxies are three in front of the database: a plain one, one with TLS, and one
// with a PgBouncer behind it. A second PgBouncer is in front of the plain one.
func (s *Stage) proxies(direct string) {
	s.tb.Helper()
	wire := testenv.LinkConfig{Protocol: testenv.PostgresWire}
	plain := s.postgresProxy(1, s.linkToPrimary("proxy–Postgres", 1).Addr(), "30ms", "")
	secure := s.postgresProxy(2, s.linkToPrimary("proxy–Postgres", 1).Addr(), "2s", s.tls.config())
	bouncer := testenv.PgBouncer(s.tb, testenv.URLVia(s.admin, s.linkToPrimary("PgBouncer–Postgres", 1).Addr()), "session")
	pooled := s.postgresProxy(3, address(s.tb, bouncer), "2s", "")
	front := testenv.PgBouncer(s.tb, testenv.URLVia(s.admin, s.link("PgBouncer–proxy", plain.addr, 1, wire).Addr()), "session")
	s.direct.Proxies = []string{testenv.URLVia(direct, plain.addr), s.tls.url(s.tb, testenv.URLVia(direct, secure.addr))}
	s.direct.Pooled = []string{testenv.URLVia(direct, pooled.addr), testenv.URLVia(direct, address(s.tb, front))}
	s.access.Proxies = []string{
		testenv.URLVia(direct, s.link("worker–proxy", plain.addr, 1, wire).Addr()),
		s.tls.url(s.tb, testenv.URLVia(direct, s.link("worker–proxy", secure.addr, 1, testenv.LinkConfig{}).Addr())),
	}
	s.access.Pooled = []string{
		testenv.URLVia(direct, s.link("worker–proxy", pooled.addr, 1, wire).Addr()),
		testenv.URLVia(direct, s.link("worker–PgBouncer", address(s.tb, front), 1, wire).Addr()),
	}
	for _, p := range []*proxy{plain, secure, pooled} {
		s.catalog = append(s.catalog, nemesis.OfServer("proxy", p, 2, nemesis.Moment)...)
	}
}

// address is the host and port of a database's URL.
func address(tb testing.TB, databaseURL string) string {
	tb.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	return u.Host
}

// database is what faults call the primary. All those of the pair have it as their
// target, so that there is one at a time.
const database = "Postgres"

// linkToPrimary is a link to whichever server is the primary.
func (s *Stage) linkToPrimary(name string, weight int) *testenv.Link {
	s.tb.Helper()
	l := s.link(name, s.pg.Primary().Addr(), weight, testenv.LinkConfig{Protocol: testenv.PostgresWire})
	s.toPrimary = append(s.toPrimary, l)
	return l
}

// standbyFaults are those of a primary with a standby. The standby is synchronous:
// one that is not loses acknowledged writes when it is promoted, and claims among
// them (docs/guarantees.md, Asynchronous standbys), so that none is promoted here.
func (s *Stage) standbyFaults() []nemesis.Fault {
	stopped := nemesis.Stopped("Postgres standby", 3, nemesis.Moment, s.pg.FreezeStandby, s.pg.ThawStandby)
	stopped.Target = database
	return []nemesis.Fault{stopped, nemesis.Promoted("Postgres killed, standby promoted", database, 9, s.promote, s.pg.Attach)}
}

// promote lets all who go to the primary go to the new one.
func (s *Stage) promote(tb testing.TB) bool {
	tb.Helper()
	if !s.pg.Promote(tb) {
		return false
	}
	for _, l := range s.toPrimary {
		l.Turn(s.pg.Primary().Addr())
	}
	return true
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
