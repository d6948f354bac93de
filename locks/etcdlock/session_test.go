package etcdlock_test

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

// sessionOf is the etcd lease of the youngest key of resource.
func (s *service) sessionOf(tb testing.TB, resource string) clientv3.LeaseID {
	tb.Helper()
	keys := s.keys(tb, resource)
	answer, err := s.client.Get(locktest.Context(tb), keys[len(keys)-1])
	if err != nil || len(answer.Kvs) != 1 {
		tb.Fatalf("get %q: %v, %v", keys, answer, err)
	}
	return clientv3.LeaseID(answer.Kvs[0].Lease)
}

func (s *service) revoke(tb testing.TB, id clientv3.LeaseID) {
	tb.Helper()
	if _, err := s.client.Revoke(locktest.Context(tb), id); err != nil {
		tb.Fatal(err)
	}
}

// alive reports whether etcd knows the session.
func (s *service) alive(tb testing.TB, id clientv3.LeaseID) bool {
	tb.Helper()
	answer, err := s.client.TimeToLive(locktest.Context(tb), id)
	if err != nil {
		tb.Fatal(err)
	}
	return answer.TTL > 0
}

// soon is less than the third of longTTL after which a renewal would tell.
const soon = longTTL / 4

func lostSoon(tb testing.TB, lease locks.Lease) {
	tb.Helper()
	select {
	case <-lease.Lost():
	case <-time.After(soon):
		tb.Fatal("Lost is not closed at once")
	}
	if err := lease.Err(); !errors.Is(err, locks.ErrLost) {
		tb.Fatalf("Err: %v", err)
	}
}

// start acquires in the background.
func start(tb testing.TB, acquire locktest.AcquireFunc, resource string) <-chan error {
	tb.Helper()
	ctx, got := locktest.Context(tb), make(chan error, 1)
	go func() {
		lease, err := acquire(ctx, resource)
		if err == nil {
			err = lease.Release(ctx)
		}
		got <- err
	}()
	return got
}

func TestRevokedWhileHolding(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	leases := []locks.Lease{locktest.MustAcquire(t, locker.Acquire, "a"), locktest.MustAcquire(t, locker.AcquireShared, "b")}
	s.revoke(t, s.sessionOf(t, "a"))
	for _, lease := range leases {
		lostSoon(t, lease)
	}
	// The locker goes on, on a new session, without an error.
	next := locktest.MustAcquire(t, locker.Acquire, "a")
	if next.Token().Number <= leases[0].Token().Number {
		t.Errorf("token %v after %v", next.Token(), leases[0].Token())
	}
	locktest.MustRelease(t, next)
}

// TestRevokedWhileWaiting: etcd #11456, #9921, #19597 (a waiter whose lease
// died waited on, for its predecessor) and #16221 (a reader was even granted).
func TestRevokedWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"exclusive", "shared"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newService(t, testenv.Etcd(t))
			holder := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
			waiter := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
			held := locktest.MustAcquire(t, holder.Acquire, "r")
			acquire := waiter.Acquire
			if mode == "shared" {
				acquire = waiter.AcquireShared
			}
			got := start(t, acquire, "r")
			s.awaitKeys(t, "r", 2)
			s.revoke(t, s.sessionOf(t, "r"))
			select {
			case err := <-got:
				if !errors.Is(err, locks.ErrLost) {
					t.Fatalf("acquire: %v, want ErrLost", err)
				}
			case <-time.After(soon):
				t.Fatal("acquire waits on after its session was revoked")
			}
			if err := held.Err(); err != nil {
				t.Fatal(err)
			}
			locktest.MustRelease(t, held)
		})
	}
}

// TestRevokedWhileIdle: a session that died while nobody used it costs no
// caller an error.
func TestRevokedWhileIdle(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	id := s.sessionOf(t, "r")
	locktest.MustRelease(t, lease)
	s.revoke(t, id)
	for _, acquire := range []locktest.AcquireFunc{locker.Acquire, locker.TryAcquireShared} {
		locktest.MustRelease(t, locktest.MustAcquire(t, acquire, "r"))
	}
}

// TestSessionEndsWhenIdle: etcd #5571, #17470 (leases kept alive although the
// user is gone).
func TestSessionEndsWhenIdle(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	locker := s.locker(t, etcdlock.Config{TTL: shortTTL}, s.Addr())
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	id := s.sessionOf(t, "r")
	// It lives as long as it is needed, many TTLs if need be.
	for end := time.Now().Add(shortTTL * 3 / 2); time.Now().Before(end); {
		if lease.Err() != nil || !s.alive(t, id) {
			t.Fatalf("session of a held lock ended: %v", lease.Err())
		}
	}
	locktest.MustRelease(t, lease)
	locktest.Await(t, func() bool { return !s.alive(t, id) })
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
}

// TestShares: many locks, one session; and two of them on one resource never
// share a key (etcd #11360).
func TestShares(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	a, b := locktest.MustAcquire(t, locker.AcquireShared, "r"), locktest.MustAcquire(t, locker.AcquireShared, "r")
	first := s.sessionOf(t, "r")
	locktest.MustRelease(t, b)
	if second := s.sessionOf(t, "r"); second != first {
		t.Errorf("sessions %x and %x", first, second)
	}
	s.wantKeys(t, "r", 1)
	locktest.MustRelease(t, a)
	s.wantKeys(t, "r", 0)
}

// TestDeadline: the deadline counts from before the request that it is owed to
// was sent, so that it is earlier than etcd's however long the request took.
func TestDeadline(t *testing.T) {
	t.Parallel()
	const ttl, delay = 10 * time.Second, 350 * time.Millisecond
	s := newService(t, testenv.Etcd(t))
	link := newLink(t, s.Addr())
	client := connect(t, s.etcd, link.Addr())
	if _, err := client.Get(locktest.Context(t), "connected"); err != nil {
		t.Fatal(err)
	}
	locker, err := etcdlock.New(client, etcdlock.Config{TTL: ttl, Prefix: s.prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locker.Close() })
	link.Delay(delay)
	start := time.Now()
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	first := lease.Deadline()
	if left := first.Sub(start); left > ttl-ttl/20+delay {
		t.Errorf("deadline is %v after the acquisition began, TTL is %v", left, ttl)
	}
	locktest.Await(t, func() bool { return lease.Deadline() != first || lease.Err() != nil })
	if left := time.Until(lease.Deadline()); left > ttl-ttl/20-delay {
		t.Errorf("deadline is %v away when the answer to a renewal comes, after %v", left, 2*delay)
	}
	if err := lease.Err(); err != nil {
		t.Fatal(err)
	}
	link.Delay(0)
	locktest.MustRelease(t, lease)
}
