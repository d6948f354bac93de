package etcdlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
)

// sessionOf is the etcd lease of the youngest key of resource.
func (s *service) sessionOf(tb testing.TB, resource string) clientv3.LeaseID {
	tb.Helper()
	keys := s.keys(tb, resource)
	answer, err := s.client.Get(testContext(tb), keys[len(keys)-1])
	if err != nil || len(answer.Kvs) != 1 {
		tb.Fatalf("get %q: %v, %v", keys, answer, err)
	}
	return clientv3.LeaseID(answer.Kvs[0].Lease)
}

func (s *service) revoke(tb testing.TB, id clientv3.LeaseID) {
	tb.Helper()
	if _, err := s.client.Revoke(testContext(tb), id); err != nil {
		tb.Fatal(err)
	}
}

// alive reports whether etcd knows the session.
func (s *service) alive(tb testing.TB, id clientv3.LeaseID) bool {
	tb.Helper()
	answer, err := s.client.TimeToLive(testContext(tb), id)
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
func start(tb testing.TB, acquire acquireFunc, resource string) <-chan error {
	tb.Helper()
	ctx, got := testContext(tb), make(chan error, 1)
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
	leases := []locks.Lease{mustAcquire(t, locker.Acquire, "a"), mustAcquire(t, locker.AcquireShared, "b")}
	s.revoke(t, s.sessionOf(t, "a"))
	for _, lease := range leases {
		lostSoon(t, lease)
	}
	// The locker goes on, on a new session, without an error.
	next := mustAcquire(t, locker.Acquire, "a")
	if next.Token().Number <= leases[0].Token().Number {
		t.Errorf("token %v after %v", next.Token(), leases[0].Token())
	}
	mustRelease(t, next)
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
			held := mustAcquire(t, holder.Acquire, "r")
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
			mustRelease(t, held)
		})
	}
}

// TestRevokedWhileIdle: a session that died while nobody used it costs no
// caller an error.
func TestRevokedWhileIdle(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	lease := mustAcquire(t, locker.Acquire, "r")
	id := s.sessionOf(t, "r")
	mustRelease(t, lease)
	s.revoke(t, id)
	for _, acquire := range []acquireFunc{locker.Acquire, locker.TryAcquireShared} {
		mustRelease(t, mustAcquire(t, acquire, "r"))
	}
}

// TestSessionEndsWhenIdle: etcd #5571, #17470 (leases kept alive although the
// user is gone).
func TestSessionEndsWhenIdle(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	locker := s.locker(t, etcdlock.Config{TTL: shortTTL}, s.Addr())
	lease := mustAcquire(t, locker.Acquire, "r")
	id := s.sessionOf(t, "r")
	// It lives as long as it is needed, many TTLs if need be.
	for end := time.Now().Add(shortTTL * 3 / 2); time.Now().Before(end); {
		if lease.Err() != nil || !s.alive(t, id) {
			t.Fatalf("session of a held lock ended: %v", lease.Err())
		}
	}
	mustRelease(t, lease)
	s.await(t, func() bool { return !s.alive(t, id) })
	mustRelease(t, mustAcquire(t, locker.Acquire, "r"))
}

// TestShares: many locks, one session; and two of them on one resource never
// share a key (etcd #11360).
func TestShares(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	a, b := mustAcquire(t, locker.AcquireShared, "r"), mustAcquire(t, locker.AcquireShared, "r")
	first := s.sessionOf(t, "r")
	mustRelease(t, b)
	if second := s.sessionOf(t, "r"); second != first {
		t.Errorf("sessions %x and %x", first, second)
	}
	s.wantKeys(t, "r", 1)
	mustRelease(t, a)
	s.wantKeys(t, "r", 0)
}

func TestClose(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	other := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	held := mustAcquire(t, other.Acquire, "theirs")
	lease := mustAcquire(t, locker.Acquire, "ours")
	waiting := start(t, locker.Acquire, "theirs")
	s.awaitKeys(t, "theirs", 2)
	id := s.sessionOf(t, "ours")
	for range 2 {
		if err := locker.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-waiting; !errors.Is(err, locks.ErrClosed) || !errors.Is(err, locks.ErrLost) {
		t.Errorf("acquire that Close ended: %v", err)
	}
	if err := lease.Err(); !errors.Is(err, locks.ErrClosed) || !errors.Is(err, locks.ErrLost) {
		t.Errorf("Err of a lease that Close ended: %v", err)
	}
	if err := lease.Release(testContext(t)); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Release of a lease that Close ended: %v", err)
	}
	if _, err := locker.Acquire(testContext(t), "r"); !errors.Is(err, locks.ErrClosed) || errors.Is(err, locks.ErrLost) {
		t.Errorf("Acquire after Close: %v", err)
	}
	if s.alive(t, id) {
		t.Error("session outlives Close")
	}
	s.wantKeys(t, "ours", 0)
	s.wantKeys(t, "theirs", 1)
	mustRelease(t, held)
}

// TestCloseHangs: Close returns although etcd does not answer.
func TestCloseHangs(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	link := newLink(t, s.Addr())
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, link.Addr())
	lease := mustAcquire(t, locker.Acquire, "r")
	link.Freeze()
	err := locker.Close()
	if err == nil || !strings.Contains(err.Error(), "revoke session") {
		t.Errorf("Close: %v", err)
	}
	if err := lease.Err(); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Err: %v", err)
	}
	link.Thaw()
}

// TestClientClosed: the client was closed under the locker.
func TestClientClosed(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	client := connect(t, s.etcd, s.Addr())
	locker, err := etcdlock.New(client, etcdlock.Config{TTL: longTTL, Prefix: s.prefix})
	if err != nil {
		t.Fatal(err)
	}
	lease := mustAcquire(t, locker.Acquire, "r")
	client.Close()
	lostSoon(t, lease)
	if _, err := locker.Acquire(testContext(t), "r"); !errors.Is(err, locks.ErrClosed) {
		t.Errorf("Acquire: %v", err)
	}
	if err := locker.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestUnreachable: no etcd there is an error that says so, not a hang; and
// with a ctx that ends sooner, sooner (etcd #18089).
func TestUnreachable(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	link := newLink(t, s.Addr())
	link.Refuse(true)
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, link.Addr())
	if _, err := locker.Acquire(testContext(t), "r"); err == nil || !strings.Contains(err.Error(), link.Addr()) {
		t.Errorf("Acquire: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := locker.TryAcquire(ctx, "r"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("TryAcquire: %v", err)
	}
	link.Refuse(false)
	mustRelease(t, mustAcquire(t, locker.Acquire, "r"))
}

// TestCancelWhileUnreachable: etcd #18082 (Lock hung in its clean-up).
func TestCancelWhileUnreachable(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	link := newLink(t, s.Addr())
	holder := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, link.Addr())
	held := mustAcquire(t, holder.Acquire, "r")
	ctx, cancel := context.WithCancel(testContext(t))
	got := make(chan error, 1)
	go func() {
		_, err := locker.Acquire(ctx, "r")
		got <- err
	}()
	s.awaitKeys(t, "r", 2)
	link.Refuse(true)
	cancel()
	select {
	case err := <-got:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire: %v", err)
		}
	case <-time.After(soon):
		t.Fatal("Acquire hangs with a ctx that has ended")
	}
	link.Refuse(false)
	s.awaitKeys(t, "r", 1) // removed as soon as etcd can be reached
	mustRelease(t, held)
}

// TestNumber: a number is the create revision of the lock's key, also for a
// grant after a wait (etcdctl's ETCD_LOCK_REV is something else).
func TestNumber(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	a, b := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr()), s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	first := mustAcquire(t, a.Acquire, "r")
	granted := make(chan locks.Lease, 1)
	go func() {
		lease, err := b.Acquire(testContext(t), "r")
		if err != nil {
			t.Error(err)
		}
		granted <- lease
	}()
	s.awaitKeys(t, "r", 2)
	for range 5 { // the revision moves on while it waits
		mustRelease(t, mustAcquire(t, a.Acquire, "other"))
	}
	mustRelease(t, first)
	second := <-granted
	answer, err := s.client.Get(testContext(t), s.keys(t, "r")[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, want := second.Token().Number, answer.Kvs[0].CreateRevision; got != want {
		t.Errorf("number %d, create revision %d", got, want)
	}
	mustRelease(t, second)
}

// TestIssuer: lockers of one prefix have one issuer, those of another etcd have
// another, so that its lower numbers are foreign and not stale.
func TestIssuer(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	a, b := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr()), s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	first := mustAcquire(t, a.AcquireShared, "r").Token()
	second := mustAcquire(t, b.AcquireShared, "r").Token()
	if first.Issuer != second.Issuer || first.Issuer == "" {
		t.Fatalf("issuers %q and %q", first.Issuer, second.Issuer)
	}
	fresh := newService(t, testenv.StartEtcd(t, testenv.EtcdConfig{}))
	third := mustAcquire(t, fresh.locker(t, etcdlock.Config{TTL: longTTL}, fresh.Addr()).Acquire, "r").Token()
	mark, err := guard.Admit(guard.Mark{}, first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Admit(mark, third); !errors.Is(err, guard.ErrForeign) {
		t.Errorf("token of another etcd: %v", err)
	}

	// Whoever removed it gets a new one, at the next grant.
	key := s.prefix + ".issuer"
	s.delete(t, key)
	if again := mustAcquire(t, a.AcquireShared, "r").Token(); again.Issuer == first.Issuer || again.Issuer == "" {
		t.Errorf("issuer %q after %q was removed", again.Issuer, first.Issuer)
	}
	if _, err := s.client.Put(testContext(t), key, "not an id"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Acquire(testContext(t), "r2"); err == nil || !strings.Contains(err.Error(), "not an id") {
		t.Errorf("Acquire with a bad issuer: %v", err)
	}
	s.awaitKeys(t, "r2", 0)
}

// TestDeadline: the deadline counts from before the request that it is owed to
// was sent, so that it is earlier than etcd's however long the request took.
func TestDeadline(t *testing.T) {
	t.Parallel()
	const ttl, delay = 10 * time.Second, 350 * time.Millisecond
	s := newService(t, testenv.Etcd(t))
	link := newLink(t, s.Addr())
	client := connect(t, s.etcd, link.Addr())
	if _, err := client.Get(testContext(t), "connected"); err != nil {
		t.Fatal(err)
	}
	locker, err := etcdlock.New(client, etcdlock.Config{TTL: ttl, Prefix: s.prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locker.Close() })
	link.Delay(delay)
	start := time.Now()
	lease := mustAcquire(t, locker.Acquire, "r")
	first := lease.Deadline()
	if left := first.Sub(start); left > ttl-ttl/20+delay {
		t.Errorf("deadline is %v after the acquisition began, TTL is %v", left, ttl)
	}
	s.await(t, func() bool { return lease.Deadline() != first || lease.Err() != nil })
	if left := time.Until(lease.Deadline()); left > ttl-ttl/20-delay {
		t.Errorf("deadline is %v away when the answer to a renewal comes, after %v", left, 2*delay)
	}
	if err := lease.Err(); err != nil {
		t.Fatal(err)
	}
	link.Delay(0)
	mustRelease(t, lease)
}
