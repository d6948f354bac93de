package demo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// guest says how the demo comes to servers of somebody else: as a role that
// may not create a database, or into a database with a fence.
type guest struct{ role, fence bool }

func testGuest(t *testing.T, program string, g guest) {
	s := testenv.StartPostgres(t, testenv.PostgresConfig{})
	etcd := testenv.StartEtcd(t, testenv.EtcdConfig{})
	admin := s.Database(t)
	url := admin
	var grant []string
	if g.role {
		name, password := s.Role(t, "LOGIN")
		url = testenv.URLAs(admin, name, password)
		clitest.Execute(t, admin, fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s",
			pgx.Identifier{clitest.DatabaseOf(t, admin)}.Sanitize(), pgx.Identifier{name}.Sanitize()))
		grant = []string{"--grant", name}
	}
	if g.fence {
		clitest.Run(t, append([]string{"migrate", "up", "--postgres", admin}, grant...)...).Want(t, cli.ExitOK)
	}
	before := inside(t, admin, etcd)

	show := start(t, program, "--json", "--postgres", url, "--etcd", etcd.Endpoints()[0])
	out, code := show.wait(t)
	if code != cli.ExitOK {
		t.Fatalf("exit code %d\n%s", code, show.stderr.String())
	}
	result(t, out)
	clitest.CheckGone(t, show.leftBehind())
	after := inside(t, admin, etcd)
	if g.role && g.fence {
		// As the help text says; a mark cannot be removed.
		i := slices.IndexFunc(after, func(s string) bool { return strings.HasPrefix(s, "mark fenceproxy-demo-") })
		if i < 0 {
			t.Fatalf("no mark: the demo was not played in this database: %q", after)
		}
		after = slices.Delete(after, i, i+1)
	}
	clitest.CheckGone(t, slices.DeleteFunc(after, func(s string) bool { return slices.Contains(before, s) }))
	if config, err := pgx.ParseConfig(url); err != nil || config.Password != "" && strings.Contains(show.stderr.String(), config.Password) {
		t.Errorf("the timeline has the password (%v):\n%s", err, show.stderr.String())
	}
}

// inside lists what is in the servers: databases, roles, schemas and marks,
// keys and leases.
func inside(t *testing.T, url string, etcd *testenv.EtcdServer) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	query := `SELECT 'database ' || datname FROM pg_database UNION ALL SELECT 'role ' || rolname FROM pg_roles
		UNION ALL SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%'`
	var fenced bool
	if err := conn.QueryRow(t.Context(), "SELECT to_regclass('fence.marks') IS NOT NULL").Scan(&fenced); err != nil {
		t.Fatal(err)
	}
	if fenced {
		query += " UNION ALL SELECT 'mark ' || resource FROM fence.marks"
	}
	rows, err := conn.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	keys, err := client.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range keys.Kvs {
		found = append(found, "key "+string(kv.Key))
	}
	leases, err := client.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range leases.Leases {
		found = append(found, fmt.Sprintf("lease %x", lease.ID))
	}
	return found
}

func testKilledGuest(t *testing.T, program string) {
	etcd := testenv.StartEtcd(t, testenv.EtcdConfig{})
	url := testenv.StartPostgres(t, testenv.PostgresConfig{}).Database(t)
	before := inside(t, url, etcd)
	s := start(t, program, "--postgres", url, "--etcd", etcd.Endpoints()[0])
	s.until(t, "SIGSTOP to worker 1")
	s.until(t, "worker 2")
	if left := inside(t, url, etcd); len(left) <= len(before) {
		t.Errorf("the test is blind: %q", left)
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.wait(t)
	clitest.Eventually(t, s.leftBehind)
	clitest.Eventually(t, func() []string {
		return slices.DeleteFunc(inside(t, url, etcd), func(s string) bool { return slices.Contains(before, s) })
	})
}
