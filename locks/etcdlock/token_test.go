package etcdlock_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
)

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
