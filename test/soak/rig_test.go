package soak_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/test/soak/gauge"
	"github.com/fenceproxy/fenceproxy/test/soak/load"
)

// rig is all servers and proxies, what works on them, and what reads them.
type rig struct {
	tb      testing.TB
	program string // fenceproxy
	job     load.Job
	gauges  []gauge.Gauge
	etcd    *clientv3.Client
	store   *s3store.Store
}

func newRig(tb testing.TB, seed uint64) *rig {
	tb.Helper()
	r := &rig{tb: tb, program: filepath.Join(tb.TempDir(), "fenceproxy")}
	if out, err := exec.CommandContext(tb.Context(), "go", "build", "-o", r.program, "../../cmd/fenceproxy").CombinedOutput(); err != nil {
		tb.Fatalf("go build: %v\n%s", err, out)
	}
	r.job = load.Job{Seed: seed, Hands: 6, Resources: 3, TTL: 2 * time.Second}
	r.gauges = append(r.gauges, gauge.Process{Name: "library"})
	r.postgres()
	r.s3()
	r.locks()
	return r
}

func (r *rig) postgres() {
	r.tb.Helper()
	server := testenv.StartPostgres(r.tb, testenv.PostgresConfig{})
	admin := server.Database(r.tb)
	role, password := server.Role(r.tb, "LOGIN")
	if err := migrations.Up(r.tb.Context(), admin, migrations.Config{Grant: []string{role}}); err != nil {
		r.tb.Fatal(err)
	}
	conn, err := pgx.Connect(r.tb.Context(), admin)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(r.tb.Context(), load.Table+"; GRANT ALL ON work TO "+role); err != nil {
		r.tb.Fatal(err)
	}
	r.job.Postgres = testenv.URLAs(admin, role, password)
	addr := r.proxy("pgproxy", fmt.Sprintf("postgres: [{listen: LISTEN, upstream: {address: %q}, evict: true}]\n", server.Addr()))
	r.job.Proxy = testenv.URLVia(r.job.Postgres, addr)
	r.gauges = append(r.gauges, gauge.Postgres{Conn: conn})
}

func (r *rig) s3() {
	r.tb.Helper()
	server := testenv.StartS3(r.tb)
	b := load.Bucket{
		Endpoint: server.Endpoint(), Region: server.Region, AccessKey: server.AccessKey, SecretKey: server.SecretKey, Name: server.Bucket(r.tb),
	}
	r.job.S3, r.job.S3Proxy = b, b
	r.job.S3Proxy.AccessKey, r.job.S3Proxy.SecretKey = "app", "secret-of-the-app"
	r.job.S3Proxy.Endpoint = r.proxy("s3proxy", fmt.Sprintf(
		"s3: [{listen: LISTEN, upstream: {endpoint: %q, region: %q, access_key: %q, secret_key: %q}, clients: [{access_key: %q, secret_key: %q, buckets: [%q]}]}]\n",
		"http://"+b.Endpoint, b.Region, b.AccessKey, b.SecretKey, r.job.S3Proxy.AccessKey, r.job.S3Proxy.SecretKey, b.Name))
	client := server.Client(r.tb)
	var err error
	if r.store, err = s3store.New(client, s3store.Config{Bucket: b.Name}); err != nil {
		r.tb.Fatal(err)
	}
	r.gauges = append(r.gauges, gauge.S3{Client: client, Bucket: b.Name})
}

func (r *rig) locks() {
	r.tb.Helper()
	etcd := testenv.StartEtcd(r.tb, testenv.EtcdConfig{}).Endpoints()
	redis := testenv.StartRedis(r.tb, testenv.RedisConfig{})
	zk := testenv.StartZooKeeper(r.tb, testenv.ZooKeeperConfig{}).Addr()
	var err error
	if r.etcd, err = clientv3.New(clientv3.Config{Endpoints: etcd}); err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(func() { r.etcd.Close() })
	r.job.Locks = []string{"etcd://" + etcd[0], "redis://" + redis.Addr(), "zk://" + zk}
	r.gauges = append(r.gauges, gauge.Etcd{Client: r.etcd}, gauge.Redis{Client: redis.Client(r.tb)}, gauge.ZooKeeper{Addr: zk})
}

// proxy starts a fenceproxy, adds its gauge, and returns its address, for which
// LISTEN stands in its configuration.
func (r *rig) proxy(name, config string) string {
	r.tb.Helper()
	path := filepath.Join(r.tb.ArtifactDir(), name)
	var addr string
	err := localserver.OnFreePorts(2, func(ports []int) error {
		addr = localserver.Loopback(ports[0])
		admin := localserver.Loopback(ports[1])
		text := fmt.Sprintf("admin: {listen: %q, pprof: true}\n%s", admin, config)
		if err := os.WriteFile(path+".yaml", []byte(replaced(text, addr)), 0o600); err != nil {
			return err
		}
		p, err := localserver.StartLogged(exec.Command(r.program, "serve", "--config", path+".yaml"), path+".log", syscall.SIGKILL)
		if err != nil {
			return err
		}
		if err := p.AwaitReady(r.tb.Context(), time.Minute, func(ctx context.Context) error { return ready(ctx, admin) }); err != nil {
			p.End(0)
			return err
		}
		r.tb.Cleanup(func() { p.End(10*time.Second, syscall.SIGTERM) })
		r.gauges = append(r.gauges, gauge.Process{Name: name, PID: p.Pid, Admin: admin})
		return nil
	})
	if err != nil {
		r.tb.Fatal(err)
	}
	return addr
}
