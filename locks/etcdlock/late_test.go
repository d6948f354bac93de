package etcdlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

// tardyKV keeps back the first transaction that it is to, as a member that hangs
// with the request in its socket does: the client gets an error, and the
// request arrives much later.
type tardyKV struct {
	clientv3.KV
	mu sync.Mutex
	// keep picks the transaction. Those that make a lock have an Else, and what
	// ends one only deletes.
	keep   func(*tardyTxn) bool
	kept   *tardyTxn
	onKeep func()
	// always: it is no single transaction, all of them are kept back.
	always bool
}

func makesLock(t *tardyTxn) bool { return len(t.not) != 0 }

func endsLock(t *tardyTxn) bool { return len(t.ops) == 1 && t.ops[0].IsDelete() }

func (kv *tardyKV) Txn(ctx context.Context) clientv3.Txn { return &tardyTxn{ctx: ctx, kv: kv} }

type tardyTxn struct {
	ctx  context.Context
	kv   *tardyKV
	cmps []clientv3.Cmp
	ops  []clientv3.Op
	not  []clientv3.Op
}

func (t *tardyTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { t.cmps = cs; return t }
func (t *tardyTxn) Then(ops ...clientv3.Op) clientv3.Txn { t.ops = ops; return t }
func (t *tardyTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.not = ops; return t }

func (t *tardyTxn) send(ctx context.Context) (*clientv3.TxnResponse, error) {
	return t.kv.KV.Txn(ctx).If(t.cmps...).Then(t.ops...).Else(t.not...).Commit()
}

func (t *tardyTxn) Commit() (*clientv3.TxnResponse, error) {
	kv := t.kv
	kv.mu.Lock()
	tardy := (kv.kept == nil || kv.always) && kv.keep(t)
	if tardy {
		kv.kept = t
	}
	kv.mu.Unlock()
	if !tardy {
		return t.send(t.ctx)
	}
	if kv.onKeep != nil {
		kv.onKeep()
	}
	return nil, status.Error(codes.Unavailable, "connection was cut")
}

// arrive lets the request arrive at last.
func (kv *tardyKV) arrive(tb testing.TB) {
	tb.Helper()
	if _, err := kv.kept.send(locktest.Context(tb)); err != nil {
		tb.Fatal(err)
	}
}

// tardyLocker returns a locker with a client that keeps a transaction back.
func (s *service) tardyLocker(tb testing.TB, ttl time.Duration, keep func(*tardyTxn) bool) (*tardyKV, *etcdlock.Locker) {
	tb.Helper()
	client := connect(tb, s.etcd, s.Addr())
	kv := &tardyKV{KV: client.KV, keep: keep}
	client.KV = kv
	locker, err := etcdlock.New(client, etcdlock.Config{TTL: ttl, Prefix: s.prefix})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { locker.Close() })
	return kv, locker
}

// TestLateRelease: etcd #22082. A request to release that arrives when its key
// has long been that of the next lock does not release that.
func TestLateRelease(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	kv, locker := s.tardyLocker(t, longTTL, endsLock)
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
	next := locktest.MustAcquire(t, locker.Acquire, "r")
	if key := s.keys(t, "r")[0]; key != string(kv.kept.ops[0].KeyBytes()) {
		t.Fatalf("the next lock has another key: %q", key)
	}
	kv.arrive(t)
	s.wantKeys(t, "r", 1)
	if err := next.Err(); err != nil {
		t.Error(err)
	}
	locktest.MustRelease(t, next)
}

// TestLateRequest: a request to make a lock that arrives when its acquisition
// is over makes none. Nobody would hold it, and the session would keep it.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	t.Run("after the release", func(t *testing.T) {
		t.Parallel()
		s := newService(t, testenv.Etcd(t))
		kv, locker := s.tardyLocker(t, longTTL, makesLock)
		locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
		kv.arrive(t)
		s.wantKeys(t, "r", 0)
	})
	t.Run("after a try", func(t *testing.T) {
		t.Parallel()
		s := newService(t, testenv.Etcd(t))
		kv, locker := s.tardyLocker(t, longTTL, makesLock)
		locktest.MustRelease(t, locktest.MustAcquire(t, locker.TryAcquireShared, "r"))
		kv.arrive(t)
		s.wantKeys(t, "r", 0)
	})
	t.Run("after ctx ended", func(t *testing.T) {
		t.Parallel()
		s := newService(t, testenv.Etcd(t))
		kv, locker := s.tardyLocker(t, longTTL, makesLock)
		ctx, cancel := context.WithCancel(locktest.Context(t))
		kv.onKeep = cancel
		if _, err := locker.Acquire(ctx, "r"); !errors.Is(err, context.Canceled) {
			t.Fatalf("Acquire: %v", err)
		}
		locktest.Await(t, func() bool { return s.graves(t) == 1 })
		kv.arrive(t)
		s.wantKeys(t, "r", 0)
	})
	t.Run("after the key was deleted", func(t *testing.T) {
		t.Parallel()
		s := newService(t, testenv.Etcd(t))
		kv, locker := s.tardyLocker(t, longTTL, makesLock)
		lease := locktest.MustAcquire(t, locker.Acquire, "r")
		s.Break(t, "r", lease.Token())
		<-lease.Lost()
		locktest.Await(t, func() bool { return s.graves(t) == 1 })
		kv.arrive(t)
		s.wantKeys(t, "r", 0)
		if err := lease.Release(locktest.Context(t)); !errors.Is(err, locks.ErrLost) {
			t.Errorf("Release: %v", err)
		}
	})
	t.Run("after the session", func(t *testing.T) {
		t.Parallel()
		s := newService(t, testenv.Etcd(t))
		kv, locker := s.tardyLocker(t, longTTL, makesLock)
		locktest.MustAcquire(t, locker.Acquire, "r")
		if err := locker.Close(); err != nil {
			t.Fatal(err)
		}
		s.wantKeys(t, "r", 0)
		if _, err := kv.kept.send(locktest.Context(t)); err == nil || !strings.Contains(err.Error(), "lease not found") {
			t.Fatalf("late request on a revoked session: %v", err)
		}
		if n := s.graves(t); n != 0 {
			t.Errorf("%d graves outlive their session", n)
		}
	})
}

func (s *service) graves(tb testing.TB) int {
	tb.Helper()
	answer, err := s.client.Get(locktest.Context(tb), s.prefix+".dead/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		tb.Fatal(err)
	}
	return int(answer.Count)
}

// TestStuckKey: a key that etcd does not let go is not kept alive for longer
// than the other locks of its session, and takes none of them with it.
func TestStuckKey(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	stuck := func(txn *tardyTxn) bool {
		return endsLock(txn) && strings.Contains(string(txn.ops[0].KeyBytes()), "/stuck/")
	}
	kv, locker := s.tardyLocker(t, 2*shortTTL, stuck)
	kv.always = true
	lease, neighbour := locktest.MustAcquire(t, locker.Acquire, "stuck"), locktest.MustAcquire(t, locker.Acquire, "neighbour")
	session := s.sessionOf(t, "stuck")
	if err := lease.Release(locktest.Context(t)); err == nil {
		t.Fatal("Release of a key that cannot be deleted returned nil")
	}
	// From some time on, new locks are on another session.
	var next locks.Lease
	locktest.Await(t, func() bool {
		next = locktest.MustAcquire(t, locker.AcquireShared, "next")
		if s.sessionOf(t, "next") != session {
			return true
		}
		locktest.MustRelease(t, next)
		return false
	})
	s.wantKeys(t, "stuck", 1)
	if err := neighbour.Err(); err != nil {
		t.Fatal(err)
	}
	locktest.MustRelease(t, neighbour)
	s.awaitKeys(t, "stuck", 0)
	if err := next.Err(); err != nil {
		t.Fatal(err)
	}
	locktest.MustRelease(t, next)
}
