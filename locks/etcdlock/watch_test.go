package etcdlock_test

import (
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

// compact compacts everything up to now, after some writes, so that whoever
// has not seen what was deleted before never will.
func (s *service) compact(tb testing.TB) {
	tb.Helper()
	var rev int64
	for range 3 {
		answer, err := s.client.Put(locktest.Context(tb), s.prefix+"unrelated", "")
		if err != nil {
			tb.Fatal(err)
		}
		rev = answer.Header.Revision
	}
	if _, err := s.client.Compact(locktest.Context(tb), rev, clientv3.WithCompactPhysical()); err != nil {
		tb.Fatal(err)
	}
}

// TestCompactionWhileWaiting: the deletion that a waiter waits for is compacted
// while the waiter's connection is down (etcd #18089: a watch may miss it).
func TestCompactionWhileWaiting(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartEtcd(t, testenv.EtcdConfig{}))
	holder := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	for _, acquire := range []func(*etcdlock.Locker) locktest.AcquireFunc{
		func(l *etcdlock.Locker) locktest.AcquireFunc { return l.Acquire },
		func(l *etcdlock.Locker) locktest.AcquireFunc { return l.AcquireShared },
	} {
		link := newLink(t, s.Addr())
		waiter := s.locker(t, etcdlock.Config{TTL: longTTL}, link.Addr())
		held := locktest.MustAcquire(t, holder.Acquire, "r")
		got := start(t, acquire(waiter), "r")
		s.awaitKeys(t, "r", 2)
		awaitWatch(t, link, 0)
		link.Refuse(true)
		locktest.MustRelease(t, held)
		s.compact(t)
		link.Refuse(false)
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	}
}

// TestCompactionWhileHolding: the key of a lock is deleted, and that compacted,
// while the holder's connection is down.
func TestCompactionWhileHolding(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartEtcd(t, testenv.EtcdConfig{}))
	link := newLink(t, s.Addr())
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, link.Addr())
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	awaitWatch(t, link, 0)
	link.Refuse(true)
	s.Break(t, "r", lease.Token())
	s.compact(t)
	link.Refuse(false)
	lostSoon(t, lease)
}

// TestCompactionBeforeTheWatch: the own key's watch asks for a past that is
// compacted when it starts, and the key is still there.
func TestCompactionBeforeTheWatch(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartEtcd(t, testenv.EtcdConfig{}))
	link := newLink(t, s.Addr())
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, link.Addr())
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	s.compact(t)
	awaitWatch(t, link, 0)
	s.Break(t, "r", lease.Token())
	lostSoon(t, lease)
}

// TestBrokenWatches: connections that break do not break what waits on them.
func TestBrokenWatches(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	link := newLink(t, s.Addr())
	holder := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, link.Addr())
	mine := locktest.MustAcquire(t, locker.Acquire, "mine")
	held := locktest.MustAcquire(t, holder.Acquire, "r")
	got := start(t, locker.Acquire, "r")
	s.awaitKeys(t, "r", 2)
	awaitWatch(t, link, 0)
	for range 5 {
		before := watches(link)
		link.Cut()
		awaitWatch(t, link, before)
	}
	if err := mine.Err(); err != nil {
		t.Fatal(err)
	}
	locktest.MustRelease(t, held)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	s.Break(t, "mine", mine.Token())
	lostSoon(t, mine)
	if err := mine.Release(locktest.Context(t)); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Release: %v", err)
	}
}

// watches counts the watch streams that passed a link.
func watches(link *testenv.Link) int {
	n := 0
	for _, path := range link.Paths() {
		if path == "/etcdserverpb.Watch/Watch" {
			n++
		}
	}
	return n
}

// awaitWatch waits until there were more watch streams than before.
func awaitWatch(tb testing.TB, link *testenv.Link, before int) {
	tb.Helper()
	locktest.Await(tb, func() bool { return watches(link) > before })
}

// TestHungWatch: the member that has the watches hangs, with its connections
// open, while another one answers.
func TestHungWatch(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	one, two := newLink(t, s.Addr()), newLink(t, s.Addr()) // like two members
	holder := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	locker := s.locker(t, etcdlock.Config{TTL: 2 * shortTTL}, one.Addr(), two.Addr())
	mine := locktest.MustAcquire(t, locker.Acquire, "mine")
	held := locktest.MustAcquire(t, holder.Acquire, "r")
	got := start(t, locker.Acquire, "r")
	s.awaitKeys(t, "r", 2)
	// Watches are confirmed in the order they were asked for in: the others are
	// there when this one works.
	probe := locktest.MustAcquire(t, locker.Acquire, "probe")
	s.Break(t, "probe", probe.Token())
	lostSoon(t, probe)
	hung := one
	if watches(one) == 0 {
		hung = two
	}
	hung.Freeze()
	locktest.MustRelease(t, held)
	s.Break(t, "mine", mine.Token())
	if err := <-got; err != nil {
		t.Errorf("waiter: %v", err)
	}
	select {
	case <-mine.Lost():
	case <-locktest.Context(t).Done():
		t.Error("the lock's key is gone and Lost is open")
	}
	hung.Thaw()
}
