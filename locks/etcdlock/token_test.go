package etcdlock_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

// TestNumber: a number is the create revision of the lock's key, also for a
// grant after a wait (etcdctl's ETCD_LOCK_REV is something else).
func TestNumber(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	a, b := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr()), s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	first := locktest.MustAcquire(t, a.Acquire, "r")
	granted := make(chan locks.Lease, 1)
	go func() {
		lease, err := b.Acquire(locktest.Context(t), "r")
		if err != nil {
			t.Error(err)
		}
		granted <- lease
	}()
	s.awaitKeys(t, "r", 2)
	for range 5 { // the revision moves on while it waits
		locktest.MustRelease(t, locktest.MustAcquire(t, a.Acquire, "other"))
	}
	locktest.MustRelease(t, first)
	second := <-granted
	answer, err := s.client.Get(locktest.Context(t), s.keys(t, "r")[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, want := second.Token().Number, answer.Kvs[0].CreateRevision; got != want {
		t.Errorf("number %d, create revision %d", got, want)
	}
	locktest.MustRelease(t, second)
}

// TestIssuer: lockers of one prefix have one issuer, those of another etcd have
// another, so that its lower numbers are foreign and not stale.
func TestIssuer(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	a, b := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr()), s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	first := locktest.MustAcquire(t, a.AcquireShared, "r").Token()
	second := locktest.MustAcquire(t, b.AcquireShared, "r").Token()
	if first.Issuer != second.Issuer || first.Issuer == "" {
		t.Fatalf("issuers %q and %q", first.Issuer, second.Issuer)
	}
	fresh := newService(t, testenv.StartEtcd(t, testenv.EtcdConfig{}))
	third := locktest.MustAcquire(t, fresh.locker(t, etcdlock.Config{TTL: longTTL}, fresh.Addr()).Acquire, "r").Token()
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
	if again := locktest.MustAcquire(t, a.AcquireShared, "r").Token(); again.Issuer == first.Issuer || again.Issuer == "" {
		t.Errorf("issuer %q after %q was removed", again.Issuer, first.Issuer)
	}
	if _, err := s.client.Put(locktest.Context(t), key, "not an id"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Acquire(locktest.Context(t), "r2"); err == nil || !strings.Contains(err.Error(), "not an id") {
		t.Errorf("Acquire with a bad issuer: %v", err)
	}
	s.awaitKeys(t, "r2", 0)
}
