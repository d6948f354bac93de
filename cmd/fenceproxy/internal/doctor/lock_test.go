package doctor

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

func TestDoctorLockBadUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"", "no lock service: give --lock URL, or set FENCE_LOCK"},
		{"etcd://h orders", "takes no argument, got 2"},
		{"--lock u:s3cret@h", "--lock is not the URL of a lock service"},
		{"u:s3cret@h", "URL is not the URL of a lock service"},
		{"redis://u:s3cret@h --ttl 10ms", "--ttl 10ms is below 1s"},
	} {
		o := clitest.Run(t, append([]string{"doctor", "lock"}, strings.Fields(c.args)...)...).Want(t, cli.ExitUsage, c.says, "; see 'fenceproxy doctor lock --help'")
		if o.Out != "" || strings.Contains(o.Err, "cret") {
			t.Errorf("%s: stdout: %s, stderr: %s", c.args, o.Out, o.Err)
		}
	}
}

func TestDoctorLockUnreachable(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"etcd://u:s3cret@127.0.0.1:1", "zk://u:s3cret@127.0.0.1:1", "redis://u:s3cret@127.0.0.1:1"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			o := clitest.Run(t, "doctor", "lock", "--lock", at).Want(t, cli.ExitUnreachable, "check the URL, and that the server runs")
			if o.Out != "" || strings.Contains(o.Err, "cret") {
				t.Errorf("stdout: %s, stderr: %s", o.Out, o.Err)
			}
		})
	}
}

func TestDoctorEtcd(t *testing.T) {
	t.Parallel()
	e := testenv.StartEtcd(t, testenv.EtcdConfig{Members: 3})
	at := "etcd://" + strings.Join(e.Endpoints(), ",") + "/test/" + locks.NewID()
	got, f := levels(t, cli.ExitOK, "doctor", "lock", at)
	wantLevels(t, f, got, map[string]level{
		"service": levelOK, "ttl": levelOK, "members": levelOK, "clock": levelOK, "member m0": levelOK, "member m1": levelOK, "member m2": levelOK,
	})
	if all := f.found("member m0") + f.found("member m1") + f.found("member m2"); strings.Count(all, "the leader") != 1 || !strings.HasPrefix(all, "etcd 3.") {
		t.Errorf("members: %s", all)
	}
	o := clitest.Invocation{Args: []string{"doctor", "lock", "--ttl", "1s"}, Env: map[string]string{connect.LockEnv: at}}.Run(t.Context()).Want(t, cli.ExitOK)
	if !strings.Contains(o.Out, "locks of 1s last 2s") {
		t.Errorf("stdout:\n%s", o.Out)
	}
	e.Members()[2].Kill(t)
	got, f = levels(t, cli.ExitOK, "doctor", "lock", at)
	wantLevels(t, f, got, map[string]level{"service": levelOK, "members": levelWarning, "member m0": levelOK, "member m2": levelWarning})
}

func TestDoctorEtcdDenied(t *testing.T) {
	t.Parallel()
	e := testenv.StartEtcd(t, testenv.EtcdConfig{Auth: true})
	at := fmt.Sprintf("%s@%s", url.QueryEscape(e.Password()), e.Endpoints()[0])
	got, f := levels(t, cli.ExitOK, "doctor", "lock", "etcd://root:"+at)
	wantLevels(t, f, got, map[string]level{"service": levelOK, "ttl": levelOK, "members": levelNote, "member m0": levelOK})
	o := clitest.Run(t, "doctor", "lock", "etcd://root:s3cret"+at).Want(t, cli.ExitDenied, "check user and password in the URL")
	if strings.Contains(o.Err, "s3cret") {
		t.Errorf("stderr has the password: %s", o.Err)
	}
}

func TestDoctorZooKeeper(t *testing.T) {
	t.Parallel()
	at := clitest.ZooKeeperURL(t)
	got, f := levels(t, cli.ExitOK, "doctor", "lock", at)
	wantLevels(t, f, got, map[string]level{"service": levelOK, "ttl": levelOK, "clock": levelOK, "server " + testenv.ZooKeeper(t).Addr(): levelOK})
	if server := f.found("server " + testenv.ZooKeeper(t).Addr()); !strings.HasPrefix(server, "ZooKeeper 3.") || !strings.HasSuffix(server, "standalone") {
		t.Errorf("server: %s", server)
	}
	got, f = levels(t, cli.ExitOK, "doctor", "lock", at, "--ttl", "1h")
	wantLevels(t, f, got, map[string]level{"ttl": levelWarning})
	// One of two hosts is not there.
	got, f = levels(t, cli.ExitOK, "doctor", "lock", strings.Replace(at, "@", "@127.0.0.1:1,", 1))
	wantLevels(t, f, got, map[string]level{"service": levelOK, "ttl": levelOK, "server 127.0.0.1:1": levelWarning})
}

func TestDoctorRedis(t *testing.T) {
	t.Parallel()
	primary := testenv.StartRedis(t, testenv.RedisConfig{Persist: true})
	at := "redis://" + primary.Addr()
	got, f := levels(t, cli.ExitOK, "doctor", "lock", at)
	wantLevels(t, f, got, map[string]level{
		"service": levelOK, "ttl": levelOK, "server": levelOK, "eviction": levelOK, "persistence": levelOK, "clock": levelOK, "replicas": levelOK,
	})
	got, f = levels(t, cli.ExitSchema, "doctor", "lock", at+"?replicas=1")
	wantLevels(t, f, got, map[string]level{"replicas": levelWrong})

	replica := testenv.StartRedis(t, testenv.RedisConfig{ReplicaOf: primary.Addr()})
	got, f = levels(t, cli.ExitSchema, "doctor", "lock", "redis://"+replica.Addr())
	wantLevels(t, f, got, map[string]level{"role": levelWrong, "persistence": levelNote})

	client := primary.Client(t)
	if err := client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	got, f = levels(t, cli.ExitSchema, "doctor", "lock", at)
	wantLevels(t, f, got, map[string]level{"eviction": levelWrong})
	clitest.Run(t, "doctor", "lock", at).Want(t, cli.ExitSchema, "eviction: maxmemory-policy allkeys-lru may evict locks", "CONFIG SET maxmemory-policy noeviction")

	if err := client.Do(t.Context(), "ACL", "SETUSER", "app", "on", ">s3cret", "~fence:locks:*", "+@read", "+@scripting", "+time", "+ping").Err(); err != nil {
		t.Fatal(err)
	}
	got, f = levels(t, cli.ExitSchema, "doctor", "lock", "redis://app:s3cret@"+primary.Addr())
	wantLevels(t, f, got, map[string]level{"service": levelOK, "server": levelWrong})
	clitest.Run(t, "doctor", "lock", "redis://app:wrong@"+primary.Addr()).Want(t, cli.ExitDenied, "check user and password in the URL")
}

func TestDoctorRedisKinds(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		servers := testenv.StartRedisCluster(t, 3)
		got, f := levels(t, cli.ExitOK, "doctor", "lock", "redis+cluster://"+servers[0].Addr())
		want := map[string]level{"cluster": levelOK}
		for _, s := range servers {
			want["server "+s.Addr()], want["eviction "+s.Addr()], want["clock "+s.Addr()] = levelOK, levelOK, levelOK
		}
		wantLevels(t, f, got, want)
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		s := testenv.StartRedisSentinel(t, testenv.RedisConfig{})
		got, f := levels(t, cli.ExitOK, "doctor", "lock", fmt.Sprintf("redis+sentinel://%s?master=%s", s.Addr(), s.Name()))
		wantLevels(t, f, got, map[string]level{"service": levelOK, "server": levelOK, "eviction": levelOK})
	})
}

// No server here has a clock that can be set.
func TestDoctorRedisClocks(t *testing.T) {
	t.Parallel()
	target, err := lockurl.Parse("redis+cluster://h")
	if err != nil {
		t.Fatal(err)
	}
	info := map[string]string{"redis_version": "7.0.1", "maxmemory_policy": "noeviction", "aof_enabled": "1"}
	for name, c := range map[string]struct {
		a, b   redisServer
		levels map[string]level
		found  string
	}{
		"right": {
			redisServer{info, 20 * time.Millisecond, time.Millisecond},
			redisServer{info, -20 * time.Millisecond, time.Millisecond},
			map[string]level{"clock a": levelOK, "clock b": levelOK, "clocks": ""},
			"20ms ahead of this machine's (± 1ms)",
		},
		"both ahead": {
			redisServer{info, time.Minute, time.Millisecond},
			redisServer{info, time.Minute, time.Millisecond},
			map[string]level{"clock a": levelWarning, "clock b": levelWarning, "clocks": ""},
			"1m0s ahead",
		},
		"apart": {
			redisServer{info, -900 * time.Millisecond, time.Millisecond},
			redisServer{info, 900 * time.Millisecond, time.Millisecond},
			map[string]level{"clock a": levelOK, "clock b": levelOK, "clocks": levelWarning},
			"900ms behind",
		},
		"far away, so who knows": {
			redisServer{info, 2 * time.Second, 3 * time.Second},
			redisServer{info, 0, time.Millisecond},
			map[string]level{"clock a": levelOK, "clock b": levelOK, "clocks": ""},
			"2s ahead of this machine's (± 3s)",
		},
	} {
		d := &lockDoctor{findings: &findings{}, target: target}
		d.redisServers(map[string]redisServer{"a": c.a, "b": c.b})
		got := map[string]level{}
		for _, one := range d.Findings {
			got[one.name()] = one.Level
		}
		wantLevels(t, d.findings, got, c.levels)
		if !strings.Contains(d.found("clock a"), c.found) {
			t.Errorf("%s: %q", name, d.found("clock a"))
		}
	}
	d := &lockDoctor{findings: &findings{}, target: target}
	d.redisServers(map[string]redisServer{"": {info: map[string]string{"redis_version": "5.0.14", "maxmemory_policy": "noeviction"}}})
	if err := d.err(); err == nil || !strings.Contains(err.Error(), "Redis 5.0.14, and locks take 6 or later") {
		t.Errorf("an old Redis: %v", err)
	}
}

// The URL of a single server leads nowhere in a Cluster.
func TestDoctorRedisOfACluster(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedisCluster(t, 1)[0]
	client, err := lockurl.Parse("redis://" + server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	opened, err := client.RedisClient()
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if _, ok := opened.(*goredis.Client); !ok {
		t.Errorf("client %T", opened)
	}
	got, f := levels(t, cli.ExitSchema, "doctor", "lock", "redis://"+server.Addr())
	wantLevels(t, f, got, map[string]level{"cluster": levelWrong})
}
