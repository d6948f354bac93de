package etcdlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

// all is everything below the prefix of s.
func (s *service) all(tb testing.TB) []*mvccpb.KeyValue {
	tb.Helper()
	answer, err := s.client.Get(locktest.Context(tb), s.prefix, clientv3.WithPrefix())
	if err != nil {
		tb.Fatal(err)
	}
	return answer.Kvs
}

func mustStatus(tb testing.TB, locker locks.StatusLocker, resource string) locks.Status {
	tb.Helper()
	status, err := locker.Status(locktest.Context(tb), resource)
	if err != nil {
		tb.Fatal(err)
	}
	return status
}

func TestStatus(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	a, b := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr()), s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	if got := mustStatus(t, a, "r"); !cmp.Equal(got, locks.Status{Resource: "r"}) {
		t.Errorf("status of what nobody has ever locked: %+v", got)
	}
	if n := len(s.all(t)); n != 0 {
		t.Fatalf("to read the status made %d keys", n)
	}
	locktest.MustRelease(t, locktest.MustAcquire(t, a.Acquire, "makes the issuer"))
	locktest.MustRelease(t, locktest.MustAcquire(t, a.Acquire, "r/deeper"))

	first, second := locktest.MustAcquire(t, a.AcquireShared, "r"), locktest.MustAcquire(t, b.AcquireShared, "r")
	writer := start(t, a.Acquire, "r")
	s.awaitKeys(t, "r", 3)
	reader := start(t, b.AcquireShared, "r")
	s.awaitKeys(t, "r", 4)
	below := locktest.MustAcquire(t, a.Acquire, "r/eu")

	before := s.all(t)
	got := mustStatus(t, a, "r")
	if diff := cmp.Diff(before, s.all(t), cmp.Comparer(func(a, b *mvccpb.KeyValue) bool { return a.String() == b.String() })); diff != "" {
		t.Errorf("to read the status changed (-before +after):\n%s", diff)
	}
	if len(got.Holders) != 2 || len(got.Waiters) != 2 || got.Issuer != first.Token().Issuer {
		t.Fatalf("two readers hold, two wait: %+v", got)
	}
	for i, lease := range []locks.Lease{first, second} {
		if token, ok := got.Holders[i].Token("r"); !ok || token != lease.Token() {
			t.Errorf("token of holder %d: %v, %v, want %v", i, token, ok, lease.Token())
		}
	}
	for i, mode := range []guard.Mode{guard.Exclusive, guard.Shared} {
		w := got.Waiters[i]
		if w.Mode != mode || w.Number <= second.Token().Number || w.Holder == "" || w.Issuer != "" {
			t.Errorf("waiter %d: %+v, want %v", i, w, mode)
		}
	}
	for _, p := range append(got.Holders, got.Waiters...) {
		if !p.Timed || p.Left <= 0 || p.Left > longTTL || p.Session == "" || p.Expired() {
			t.Errorf("place %+v does not have up to %v", p, longTTL)
		}
	}
	if got.Holders[0].Session != got.Waiters[0].Session || got.Holders[0].Session == got.Holders[1].Session {
		t.Errorf("sessions of two lockers, of a place each: %+v", got)
	}
	for _, lease := range []locks.Lease{first, second, below} {
		locktest.MustRelease(t, lease)
	}
	for _, got := range []<-chan error{writer, reader} {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
	if _, err := a.Status(locktest.Context(t), ""); !errors.Is(err, guard.ErrMalformed) {
		t.Errorf("status of no name: %v", err)
	}
}

// TestStatusOfTheFirst: the first lock ever is older than its issuer.
func TestStatusOfTheFirst(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartEtcd(t, testenv.EtcdConfig{}))
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	got := mustStatus(t, locker, "r")
	if len(got.Holders) != 1 {
		t.Fatalf("status %+v", got)
	}
	if token, ok := got.Holders[0].Token("r"); !ok || token != lease.Token() {
		t.Errorf("token %v, %v, want %v", token, ok, lease.Token())
	}
	locktest.MustRelease(t, lease)
}

// TestStatusOfForeignKeys: a key that somebody else put into a queue keeps
// writers waiting, so it is shown.
func TestStatusOfForeignKeys(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "makes the issuer"))
	if _, err := s.client.Put(locktest.Context(t), s.prefix+"r/stray", "\x1b[31m"); err != nil {
		t.Fatal(err)
	}
	got := start(t, locker.Acquire, "r")
	s.awaitKeys(t, "r", 2)
	status := mustStatus(t, locker, "r")
	if len(status.Holders) != 1 || len(status.Waiters) != 1 {
		t.Fatalf("status %+v", status)
	}
	if p := status.Holders[0]; p.Timed || p.Session != "" || p.Expired() || p.Holder != "\x1b[31m" {
		t.Errorf("place %+v of a key without a lease", p)
	}
	if token, ok := status.Holders[0].Token("r"); ok {
		t.Errorf("a stray key has the token %v", token)
	}
	s.delete(t, s.prefix+"r/stray")
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// asUser is a locker of s as a user who may do perm below the prefix.
func (s *service) asUser(t *testing.T, name string, perm clientv3.PermissionType) *etcdlock.Locker {
	t.Helper()
	ctx := locktest.Context(t)
	for _, step := range []func() error{
		func() error { _, err := s.client.UserAdd(ctx, name, "pw"); return err },
		func() error { _, err := s.client.RoleAdd(ctx, name); return err },
		func() error { _, err := s.client.UserGrantRole(ctx, name, name); return err },
		func() error {
			_, err := s.client.RoleGrantPermission(ctx, name, s.prefix, clientv3.GetPrefixRangeEnd(s.prefix), perm)
			return err
		},
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: s.etcd.Endpoints(), Username: name, Password: "pw", Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	locker, err := etcdlock.New(client, etcdlock.Config{TTL: longTTL, Prefix: s.prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locker.Close() })
	return locker
}

// TestStatusPermissions: who may only read sees all of it; who may lock, may
// rotate.
func TestStatusPermissions(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartEtcd(t, testenv.EtcdConfig{Auth: true}))
	reader := s.asUser(t, "reader", clientv3.PermissionType(clientv3.PermRead))
	writer := s.asUser(t, "writer", clientv3.PermissionType(clientv3.PermReadWrite))
	blind := s.asUser(t, "blind", clientv3.PermissionType(clientv3.PermWrite))
	lease := locktest.MustAcquire(t, writer.Acquire, "r")
	got := mustStatus(t, reader, "r")
	if len(got.Holders) != 1 || !got.Holders[0].Timed || got.Holders[0].Holder != lease.Token().Holder {
		t.Errorf("a reader sees %+v", got)
	}
	if _, err := blind.Status(locktest.Context(t), "r"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("status for somebody who may not read: %v", err)
	}
	if _, err := reader.RotateIssuer(locktest.Context(t), got.Issuer); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("a reader rotates: %v", err)
	}
	fresh, err := writer.RotateIssuer(locktest.Context(t), got.Issuer)
	if err != nil || fresh == got.Issuer {
		t.Errorf("a writer rotates: %q, %v", fresh, err)
	}
	locktest.MustRelease(t, lease)
}

// TestStatusOfAHungServer ends with its ctx.
func TestStatusOfAHungServer(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	link := newLink(t, s.Addr())
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, link.Addr())
	mustStatus(t, locker, "r")
	link.Freeze()
	defer link.Thaw()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := locker.Status(ctx, "r"); err == nil || ctx.Err() == nil {
		t.Errorf("status: %v", err)
	}
	if _, err := locker.RotateIssuer(ctx, ""); err == nil {
		t.Error("rotated without an answer")
	}
}
