package etcdlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

// TestAuthTokenExpires: etcd #13975 (an authentication that expired between
// Lock and Unlock: "invalid auth token", and a panic from NewLocker).
func TestAuthTokenExpires(t *testing.T) {
	t.Parallel()
	const tokenTTL = time.Second
	s := newService(t, testenv.StartEtcd(t, testenv.EtcdConfig{Auth: true, AuthTokenTTL: int(tokenTTL / time.Second)}))
	count := newCounter(t, s.Addr())
	a, b := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr()), s.locker(t, etcdlock.Config{TTL: longTTL}, count.Addr())
	first := locktest.MustAcquire(t, a.Acquire, "r")
	other := locktest.MustAcquire(t, b.Acquire, "other") // keeps a watch stream open that was authenticated now
	got := start(t, b.Acquire, "r")
	s.awaitKeys(t, "r", 2)
	expire(t, s, tokenTTL)
	locktest.MustRelease(t, first)
	if err := <-got; err != nil {
		t.Fatalf("waiter whose authentication expired: %v", err)
	}

	// A new wait, on the watch stream of the expired authentication: it gets a
	// new one, instead of a poll.
	second := locktest.MustAcquire(t, a.Acquire, "r")
	before := count.Since()
	got = start(t, b.Acquire, "r")
	s.awaitKeys(t, "r", 2)
	<-time.After(2 * time.Second)
	if polls := count.Since(); len(polls) > 6 {
		t.Errorf("a wait of two seconds cost %d requests, the one before %d", len(polls), len(before))
	}
	locktest.MustRelease(t, second)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if err := other.Err(); err != nil {
		t.Fatal(err)
	}
	s.Break(t, "other", other.Token())
	lostSoon(t, other)
	expire(t, s, tokenTTL)
	locktest.MustRelease(t, locktest.MustAcquire(t, b.TryAcquire, "r"))
}

// expire waits until etcd has forgotten every authentication that was used
// last before the call.
func expire(tb testing.TB, s *service, ttl time.Duration) {
	tb.Helper()
	// A watch that starts late may use its authentication a little later than
	// the first witness is made, but not later than the second.
	for range 2 {
		for idle := 2 * ttl; !s.forgets(tb, idle); idle *= 2 {
		}
	}
}

// forgets reports whether an authentication that nobody uses for the given
// time is forgotten. To ask more often would keep it alive.
func (s *service) forgets(tb testing.TB, idle time.Duration) bool {
	tb.Helper()
	witness, err := s.client.Authenticate(locktest.Context(tb), "root", s.etcd.Password())
	if err != nil {
		tb.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: s.etcd.Endpoints(), Token: witness.Token, Logger: zap.NewNop()})
	if err != nil {
		tb.Fatal(err)
	}
	defer client.Close()
	<-time.After(idle)
	_, err = client.Get(locktest.Context(tb), "witness")
	return errors.Is(err, rpctypes.ErrInvalidAuthToken)
}

// TestPermissions: what the user may not do is an error that says so, and
// leaves nothing behind.
func TestPermissions(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartEtcd(t, testenv.EtcdConfig{Auth: true}))
	ctx := locktest.Context(t)
	for _, step := range []func() error{
		func() error { _, err := s.client.UserAdd(ctx, "reader", "pw"); return err },
		func() error { _, err := s.client.RoleAdd(ctx, "reader"); return err },
		func() error { _, err := s.client.UserGrantRole(ctx, "reader", "reader"); return err },
		func() error {
			_, err := s.client.RoleGrantPermission(ctx, "reader", s.prefix, clientv3.GetPrefixRangeEnd(s.prefix),
				clientv3.PermissionType(clientv3.PermRead))
			return err
		},
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: s.etcd.Endpoints(), Username: "reader", Password: "pw", Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	locker, err := etcdlock.New(client, etcdlock.Config{TTL: longTTL, Prefix: s.prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locker.Close() })
	_, err = locker.Acquire(ctx, "r")
	if err == nil || !strings.Contains(err.Error(), "permission denied") || errors.Is(err, locks.ErrLost) || errors.Is(err, context.Canceled) {
		t.Errorf("Acquire without permission: %v", err)
	}
	s.wantKeys(t, "r", 0)
}
