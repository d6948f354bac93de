package etcdlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
)

// tardyKV keeps back the first transaction that makes a lock, as a member that
// hangs with the request in its socket does: the client gets an error, and the
// request arrives much later.
type tardyKV struct {
	clientv3.KV
	mu   sync.Mutex
	kept func() (*clientv3.TxnResponse, error)
	// onKeep runs when the request is kept back.
	onKeep func()
}

func (kv *tardyKV) Txn(ctx context.Context) clientv3.Txn {
	return &tardyTxn{Txn: kv.KV.Txn(ctx), kv: kv}
}

type tardyTxn struct {
	clientv3.Txn
	kv   *tardyKV
	cmps []clientv3.Cmp
	ops  []clientv3.Op
	not  []clientv3.Op
}

func (t *tardyTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { t.cmps = cs; return t }
func (t *tardyTxn) Then(ops ...clientv3.Op) clientv3.Txn { t.ops = ops; return t }
func (t *tardyTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.not = ops; return t }

func (t *tardyTxn) Commit() (*clientv3.TxnResponse, error) {
	t.kv.mu.Lock()
	defer t.kv.mu.Unlock()
	makesLock := len(t.not) != 0
	if !makesLock || t.kv.kept != nil {
		return t.Txn.If(t.cmps...).Then(t.ops...).Else(t.not...).Commit()
	}
	t.kv.kept = func() (*clientv3.TxnResponse, error) {
		return t.kv.KV.Txn(context.Background()).If(t.cmps...).Then(t.ops...).Else(t.not...).Commit()
	}
	if t.kv.onKeep != nil {
		t.kv.onKeep()
	}
	return nil, status.Error(codes.Unavailable, "connection was cut")
}

// arrive lets the request arrive at last.
func (kv *tardyKV) arrive(tb testing.TB) {
	tb.Helper()
	if _, err := kv.kept(); err != nil {
		tb.Fatal(err)
	}
}

// TestLateRequest: a request to make a lock that arrives when its acquisition
// is over makes none. Nobody would hold it, and the session would keep it.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	setUp := func(t *testing.T) (*service, *tardyKV, *etcdlock.Locker) {
		s := newService(t, testenv.Etcd(t))
		client := connect(t, s.etcd, s.Addr())
		kv := &tardyKV{KV: client.KV}
		client.KV = kv
		locker, err := etcdlock.New(client, etcdlock.Config{TTL: longTTL, Prefix: s.prefix})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { locker.Close() })
		return s, kv, locker
	}

	t.Run("after the release", func(t *testing.T) {
		t.Parallel()
		s, kv, locker := setUp(t)
		mustRelease(t, mustAcquire(t, locker.Acquire, "r"))
		kv.arrive(t)
		s.wantKeys(t, "r", 0)
	})
	t.Run("after a try", func(t *testing.T) {
		t.Parallel()
		s, kv, locker := setUp(t)
		mustRelease(t, mustAcquire(t, locker.TryAcquireShared, "r"))
		kv.arrive(t)
		s.wantKeys(t, "r", 0)
	})
	t.Run("after ctx ended", func(t *testing.T) {
		t.Parallel()
		s, kv, locker := setUp(t)
		ctx, cancel := context.WithCancel(testContext(t))
		kv.onKeep = cancel
		if _, err := locker.Acquire(ctx, "r"); !errors.Is(err, context.Canceled) {
			t.Fatalf("Acquire: %v", err)
		}
		s.await(t, func() bool { return s.graves(t) == 1 })
		kv.arrive(t)
		s.wantKeys(t, "r", 0)
	})
	t.Run("after the key was deleted", func(t *testing.T) {
		t.Parallel()
		s, kv, locker := setUp(t)
		lease := mustAcquire(t, locker.Acquire, "r")
		s.Break(t, "r", lease.Token())
		<-lease.Lost()
		s.await(t, func() bool { return s.graves(t) == 1 })
		kv.arrive(t)
		s.wantKeys(t, "r", 0)
		if err := lease.Release(testContext(t)); !errors.Is(err, locks.ErrLost) {
			t.Errorf("Release: %v", err)
		}
	})
	t.Run("after the session", func(t *testing.T) {
		t.Parallel()
		s, kv, locker := setUp(t)
		mustAcquire(t, locker.Acquire, "r")
		if err := locker.Close(); err != nil {
			t.Fatal(err)
		}
		s.wantKeys(t, "r", 0)
		if _, err := kv.kept(); err == nil || !strings.Contains(err.Error(), "lease not found") {
			t.Fatalf("late request on a revoked session: %v", err)
		}
		if n := s.graves(t); n != 0 {
			t.Errorf("%d graves outlive their session", n)
		}
	})
}

func (s *service) graves(tb testing.TB) int {
	tb.Helper()
	answer, err := s.client.Get(testContext(tb), s.prefix+".dead/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		tb.Fatal(err)
	}
	return int(answer.Count)
}
