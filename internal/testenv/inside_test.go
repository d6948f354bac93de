package testenv

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
)

// A stand-in for the docker command shows how containers are run; it needs an
// etcd of this machine to run in place of the image's.
func TestDocker(t *testing.T) {
	own, err := binFolder()
	need(t, err)
	etcd, err := localserver.FindEtcd(own)
	need(t, err)
	dir := t.TempDir()
	script := `#!/bin/sh
echo "$@" >> "` + dir + `/calls"
case $1 in
create) echo the-id ;;
start)
	port=$(sed -n 's/^create .*127.0.0.1:\([0-9]*\):2379.*/\1/p' "` + dir + `/calls")
	exec "` + etcd + `" --data-dir "` + dir + `/data" --listen-peer-urls http://127.0.0.1:0 \
		--listen-client-urls "http://127.0.0.1:$port" --advertise-client-urls "http://127.0.0.1:$port" ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	e, stop, err := dockerEtcd(EtcdConfig{}, errMissing)
	if err != nil {
		t.Fatal(err)
	}
	e.Members()[0].Kill(t)
	e.Members()[0].Start(t)
	e.Members()[0].Freeze(t)
	e.Members()[0].Thaw(t)
	stop()
	if conn, err := net.DialTimeout("tcp", e.Endpoints()[0], time.Second); err == nil {
		conn.Close()
		t.Error("still runs after it was stopped")
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `^version
ps --all --filter label=fenceproxy.test --format .*
create --init --label fenceproxy.test=/\S+ --publish 127.0.0.1:\d+:2379 quay.io/coreos/etcd:v\S+ /usr/local/bin/etcd .*
start --attach the-id
kill the-id
start --attach the-id
pause the-id
unpause the-id
rm --force --volumes the-id
$`
	if !regexp.MustCompile(want).Match(calls) {
		t.Errorf("docker was called so:\n%s", calls)
	}
}

func TestNoDocker(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if _, _, err := dockerPostgres(PostgresConfig{Major: 15}, errMissing); !errors.Is(err, errMissing) {
		t.Errorf("without an engine: %v", err)
	}
}

// A server that does not start says why.
func TestStartErrorShowsTheLog(t *testing.T) {
	t.Parallel()
	_, err := findPostgres(postgresVersions(t)[0])
	need(t, err)
	_, _, err = launchPostgres(PostgresConfig{Major: postgresVersions(t)[0], Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), `unrecognized configuration parameter "no_such_setting"`) {
		t.Errorf("error: %v", err)
	}
}

// A server of the environment is used as a guest uses it.
func TestServersOfTheEnvironment(t *testing.T) {
	server, stop, err := launchPostgres(PostgresConfig{Major: postgresVersions(t)[0]})
	need(t, err)
	t.Cleanup(stop)
	t.Setenv(PostgresURLEnv, server.admin)
	guest := Postgres(t)
	if guest.Addr() != server.Addr() || guest.Major() != server.Major() || PostgresVersion(t, server.Major()) != guest {
		t.Errorf("version %d at %s, want %d at %s", guest.Major(), guest.Addr(), server.Major(), server.Addr())
	}
	t.Run("test", func(t *testing.T) {
		guest.Role(t, "LOGIN")
		guest.Database(t)
	})
	var left int
	err = withConn(server.admin, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `select (select count(*) from pg_database where datname like 'fence%') + (select count(*) from pg_roles where rolname like 'fence%')`).Scan(&left)
	})
	if err != nil || left != 0 {
		t.Errorf("%d databases and roles left behind, %v", left, err)
	}
	t.Setenv(EtcdEndpointsEnv, "127.0.0.1:1,127.0.0.1:2")
	if got := Etcd(t).Endpoints(); len(got) != 2 || got[1] != "127.0.0.1:2" {
		t.Errorf("etcd at %v", got)
	}
	got, err := s3At("http://k:s%2F@127.0.0.1:3/?region=r")
	if err != nil || got.Endpoint() != "127.0.0.1:3" || got.AccessKey != "k" || got.SecretKey != "s/" || got.Region != "r" {
		t.Errorf("S3: %+v, %v", got, err)
	}
	if _, err := s3At("127.0.0.1:secret"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("S3: %v", err)
	}
}
