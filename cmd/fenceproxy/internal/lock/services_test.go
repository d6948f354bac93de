package lock

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9/logging"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

// lockService opens a lock service of a test, and closes it with the test.
func lockService(t *testing.T, text string) locks.Locker {
	t.Helper()
	logging.Disable()
	target, err := lockurl.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := target.Open(t.Context(), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.Locker
}

func mustLock(t *testing.T, acquire func(context.Context, string) (locks.Lease, error), resource string) locks.Lease {
	t.Helper()
	lease, err := acquire(t.Context(), resource)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func mustUnlock(t *testing.T, lease locks.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// etcdURL, ZooKeeperURL and redisURL name a place of the test's own.
func etcdURL(t *testing.T) string {
	return fmt.Sprintf("etcd://%s/test/%s", testenv.Etcd(t).Endpoints()[0], locks.NewID())
}

func etcdURLWithPassword(t *testing.T) string {
	e := testenv.StartEtcd(t, testenv.EtcdConfig{Auth: true})
	return fmt.Sprintf("etcd://root:%s@%s", url.QueryEscape(e.Password()), e.Endpoints()[0])
}

// TestLockStatus is of each lock service that a URL can name.
func TestLockStatus(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(*testing.T) string{
		"etcd":                 etcdURL,
		"etcd with a password": etcdURLWithPassword,
		"zk":                   clitest.ZooKeeperURL,
		"redis": func(t *testing.T) string {
			return fmt.Sprintf("redis://%s/3?prefix=%s:&issuer=main", testenv.Redis(t).Addr(), locks.NewID())
		},
		"redis+sentinel": func(t *testing.T) string {
			s := testenv.StartRedisSentinel(t, testenv.RedisConfig{})
			return fmt.Sprintf("redis+sentinel://%s?master=%s", s.Addr(), s.Name())
		},
		"redis+cluster": func(t *testing.T) string {
			return "redis+cluster://" + testenv.StartRedisCluster(t, 1)[0].Addr()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testLockStatus(t, at(t))
		})
	}
}

func testLockStatus(t *testing.T, at string) {
	t.Helper()
	o := clitest.Run(t, "lock", "status", "--lock", at, "orders/eu").Want(t, cli.ExitOK)
	if !strings.Contains(o.Out, "held by nobody") || strings.Contains(o.Out, "waiting") {
		t.Errorf("status of nothing:\n%s", o.Out)
	}
	var got statusDocument
	clitest.Decode(t, clitest.Run(t, "lock", "status", at, "orders/eu", "--json").Want(t, cli.ExitOK).Out, &got)
	if got.Resource != "orders/eu" || got.Holders == nil || got.Waiters == nil || len(got.Holders)+len(got.Waiters) != 0 {
		t.Errorf("status of nothing: %+v", got)
	}

	locker := lockService(t, at)
	mustUnlock(t, mustLock(t, locker.Acquire, "makes the issuer"))
	lease := mustLock(t, locker.AcquireShared, "orders/eu")
	waiter := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, err := locker.Acquire(ctx, "orders/eu"); waiter <- err }()

	status := clitest.Invocation{Args: []string{"lock", "status", "orders/eu", "--json"}, Env: map[string]string{connect.LockEnv: at}}
	for deadline := time.Now().Add(time.Minute); len(got.Waiters) == 0 && time.Now().Before(deadline); {
		clitest.Decode(t, status.Run(t.Context()).Want(t, cli.ExitOK).Out, &got)
	}
	if len(got.Holders) != 1 || len(got.Waiters) != 1 {
		t.Fatalf("status %+v", got)
	}
	token := lease.Token()
	h, w := got.Holders[0], got.Waiters[0]
	if h.Mode != "shared" || h.Holder != token.Holder || h.Number == nil || *h.Number != fmt.Sprint(token.Number) || h.Expired ||
		h.Token == nil || *h.Token != token.String() || got.Issuer != token.Issuer {
		t.Errorf("holder %+v of %+v, want %v", h, got, token)
	}
	if w.Mode != "exclusive" || w.Holder == "" || w.Token != nil || w.Expired {
		t.Errorf("waiter %+v", w)
	}
	if zk := strings.HasPrefix(at, "zk"); zk != (h.Left == nil) || !zk && (*h.Left <= 0 || *h.Left > 30) {
		t.Errorf("time left: %+v", h)
	}
	o = clitest.Run(t, "lock", "status", at, "orders/eu").Want(t, cli.ExitOK)
	for _, want := range []string{"held by:\n  MODE", token.String(), "waiting, first come first:\n  MODE", w.Holder} {
		if !strings.Contains(o.Out, want) {
			t.Errorf("status has no %q:\n%s", want, o.Out)
		}
	}
	if strings.Contains(o.Out+o.Err, "s3cret") {
		t.Errorf("status has the password:\n%s", o.Out)
	}
	cancel()
	if err := <-waiter; err == nil {
		t.Error("the waiter got the lock")
	}
	mustUnlock(t, lease)
}

// Who answers, and does not let somebody in, is told from who does not answer.
func TestLockDenied(t *testing.T) {
	t.Parallel()
	e := testenv.StartEtcd(t, testenv.EtcdConfig{Auth: true})
	s := testenv.StartRedis(t, testenv.RedisConfig{})
	if err := s.Client(t).ConfigSet(t.Context(), "requirepass", "right").Err(); err != nil {
		t.Fatal(err)
	}
	mine := clitest.ZooKeeperURL(t)
	mustUnlock(t, mustLock(t, lockService(t, mine).Acquire, "orders"))
	for _, at := range []string{
		"etcd://root:wr0ng@" + e.Endpoints()[0], "redis://:wr0ng@" + s.Addr(), "redis://" + s.Addr(),
		strings.Replace(mine, "u:s3cret@", "u:wr0ng@", 1), strings.Replace(mine, "u:s3cret@", "", 1),
	} {
		o := clitest.Run(t, "lock", "status", at, "orders").Want(t, cli.ExitDenied, "check user and password in the URL")
		if strings.Contains(o.Err, "wr0ng") || strings.Contains(o.Err, "s3cret") {
			t.Errorf("stderr has the password: %s", o.Err)
		}
		if !strings.HasPrefix(at, "redis") {
			denied(t, clitest.Run(t, "lock", "rotate-issuer", at, "--yes"))
		}
	}
}

// denied wants the code alone: what is at risk may have been told before.
func denied(t *testing.T, o clitest.Outcome) {
	t.Helper()
	if o.Code != cli.ExitDenied || o.Out != "" {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", o.Code, cli.ExitDenied, o.Out, o.Err)
	}
}

// TestLockRotateIssuer goes all the way: a service is given another issuer, the
// resource refuses it, adopts it, and from then on refuses the one before.
func TestLockRotateIssuer(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(*testing.T) string{
		"etcd": etcdURL, "etcd with a password": etcdURLWithPassword, "zk": clitest.ZooKeeperURL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testLockRotateIssuer(t, at(t), clitest.Install(t, testenv.Postgres(t)))
		})
	}
}

func testLockRotateIssuer(t *testing.T, at, database string) {
	t.Helper()
	rotate := func(i clitest.Invocation, args ...string) clitest.Outcome {
		i.Args = append([]string{"lock", "rotate-issuer", at}, args...)
		return i.Run(t.Context())
	}
	var first, second struct{ Service, Before, Issuer string }
	clitest.Decode(t, rotate(clitest.Invocation{}, "--yes", "--json").Want(t, cli.ExitOK, "is about to get an issuer; it has none so far").Out, &first)
	locker := lockService(t, at)
	lease := mustLock(t, locker.Acquire, "orders")
	old := lease.Token()
	if first.Before != "" || first.Issuer != old.Issuer {
		t.Fatalf("made %+v, granted %v", first, old)
	}
	clitest.Execute(t, database, claim(old))

	rotate(clitest.Invocation{}).Want(t, cli.ExitUsage, "give --yes")
	if o := rotate(clitest.Invocation{In: "no\n", Terminal: true}); o.Code != cli.ExitFailure || !strings.Contains(o.Err, "nothing was changed") {
		t.Errorf("not confirmed: %+v", o)
	}
	o := rotate(clitest.Invocation{In: "yes\n", Terminal: true}).Want(t, cli.ExitOK, "Resources refuse what is acquired from then on", "it is "+old.Issuer)
	mustUnlock(t, lease)
	lease = mustLock(t, locker.Acquire, "orders")
	fresh := lease.Token()
	for _, want := range []string{"before that " + old.Issuer, "fenceproxy marks adopt RESOURCE --issuer " + fresh.Issuer + " --postgres URL"} {
		if !strings.Contains(o.Out, want) {
			t.Errorf("stdout has no %q:\n%s", want, o.Out)
		}
	}
	if fresh.Issuer == old.Issuer || strings.Contains(o.Out+o.Err, "s3cret") {
		t.Errorf("granted %v after %v; said %s", fresh, old, o.Err+o.Out)
	}

	foreign(t, database, fresh)
	clitest.Run(t, "marks", "adopt", "orders", "--issuer", fresh.Issuer, "--postgres", database, "--yes").Want(t, cli.ExitOK)
	clitest.Execute(t, database, claim(fresh))
	foreign(t, database, old)
	mustUnlock(t, lease)

	clitest.Decode(t, rotate(clitest.Invocation{}, "--yes", "--json").Want(t, cli.ExitOK).Out, &second)
	if second.Before != fresh.Issuer || second.Issuer == fresh.Issuer || !strings.HasPrefix(second.Service, at[:2]) {
		t.Errorf("rotated %+v after %v", second, fresh)
	}
}

func claim(token guard.Token) string { return fmt.Sprintf("SELECT fence.claim('%s')", token) }

// foreign wants a claim of token to be refused as one of another issuer.
func foreign(t *testing.T, database string, token guard.Token) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), claim(token))
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "TK003" {
		t.Errorf("claim of %v: %v", token, err)
	}
}
