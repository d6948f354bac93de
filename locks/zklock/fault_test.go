package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

// TestLostReply: go-zookeeper #229 and Curator's protected create. Each request
// whose reply is lost is known by its outcome, or repeated: nobody makes a
// second node behind his own (kazoo PR #170), and nothing is left.
func TestLostReply(t *testing.T) {
	t.Parallel()
	for _, contended := range []bool{false, true} {
		for _, request := range []string{"multi", "getChildren2", "getData", "delete"} {
			t.Run(fmt.Sprintf("%s, contended %v", request, contended), func(t *testing.T) {
				t.Parallel()
				s := newService(t, testenv.ZooKeeper(t))
				far, link := s.far(t)
				near := s.near(t)
				held := locktest.MustAcquire(t, near.Acquire, "r")
				if !contended {
					locktest.MustRelease(t, held)
				}
				link.DropReplyTo(func(path string) bool { return path == request }, 1)
				wait := locktest.Background(locktest.Context(t), t, far.Acquire, "r")
				if contended {
					s.awaitEntries(t, "r", 2)
					locktest.MustRelease(t, held)
				}
				lease := locktest.WantGrant(t, wait)
				locktest.WantRising(t, held, lease)
				if names := s.queue(t, "r"); len(names) != 1 || !strings.Contains(names[0], lease.Token().Holder) {
					t.Errorf("nodes %q of %v", names, lease.Token())
				}
				if got := s.czxid(t, s.dir("r")+"/"+s.queue(t, "r")[0]); got != lease.Token().Number {
					t.Errorf("czxid %d of %v", got, lease.Token())
				}
				locktest.MustRelease(t, lease)
				s.awaitEntries(t, "r", 0)
			})
		}
	}
}

func (s *service) czxid(tb testing.TB, path string) int64 {
	tb.Helper()
	stat, err := ask(tb, func() (*zk.Stat, error) {
		_, stat, err := s.conn.Get(path)
		return stat, err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return stat.Czxid
}

// TestCancelled: CURATOR-79. An acquisition that is given up leaves no node,
// also if it is not known yet whether there is one.
func TestCancelled(t *testing.T) {
	t.Parallel()
	t.Run("while its creation is on its way", func(t *testing.T) {
		t.Parallel()
		s := newService(t, testenv.ZooKeeper(t))
		far, link := s.far(t)
		ctx, cancel := context.WithCancel(locktest.Context(t))
		locktest.MustRelease(t, locktest.MustAcquire(t, far.Acquire, "r"))
		link.Freeze()
		before := len(link.Paths())
		wait := locktest.Background(ctx, t, far.Acquire, "r")
		locktest.Await(t, func() bool { return slices.Contains(link.Paths()[before:], "multi") })
		cancel()
		if g := <-wait; !errors.Is(g.Err, context.Canceled) {
			t.Fatalf("Acquire: %v, %v", g.Lease, g.Err)
		}
		link.Thaw()
		// The creation arrives, and then what undoes it.
		locktest.Await(t, func() bool { return slices.Contains(link.Paths()[before:], "delete") })
		s.awaitEntries(t, "r", 0)
	})
	t.Run("while the server is gone", func(t *testing.T) {
		t.Parallel()
		s := newService(t, testenv.ZooKeeper(t))
		far, link := s.far(t)
		held := locktest.MustAcquire(t, s.near(t).Acquire, "r")
		ctx, cancel := context.WithCancel(locktest.Context(t))
		wait := locktest.Background(ctx, t, far.Acquire, "r")
		s.awaitEntries(t, "r", 2)
		link.Refuse(true)
		cancel()
		if g := <-wait; !errors.Is(g.Err, context.Canceled) {
			t.Fatalf("Acquire: %v, %v", g.Lease, g.Err)
		}
		link.Refuse(false)
		s.awaitEntries(t, "r", 1)
		locktest.MustRelease(t, held)
	})
	t.Run("before it was sent", func(t *testing.T) {
		t.Parallel()
		s := newService(t, testenv.ZooKeeper(t))
		far, link := s.far(t)
		link.Refuse(true)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := far.Acquire(ctx, "r"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Acquire: %v", err)
		}
		link.Refuse(false)
		locktest.MustRelease(t, locktest.MustAcquire(t, far.Acquire, "q"))
		s.awaitEntries(t, "r", 0)
	})
}

// TestNextIsGoneBeforeItIsWatched: go-zookeeper #145.
func TestNextIsGoneBeforeItIsWatched(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	far, link := s.far(t)
	held := locktest.MustAcquire(t, s.near(t).Acquire, "r")
	wait := locktest.Background(locktest.Context(t), t, far.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	link.Delay(500 * time.Millisecond)
	// Its own look is repeated after a connection that was cut, and the watch
	// goes the same slow way.
	link.Cut()
	locktest.MustRelease(t, held)
	next := locktest.WantGrant(t, wait)
	link.Delay(0)
	locktest.WantRising(t, held, next)
	locktest.MustRelease(t, next)
}

// TestParentIsDeleted: CURATOR-308. Directories that are gone are made again;
// numbers rise though sequence numbers start again, and the issuer stays.
func TestParentIsDeleted(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	locker := s.near(t)
	first := locktest.MustAcquire(t, locker.Acquire, "r")
	name := s.queue(t, "r")[0]
	locktest.MustRelease(t, first)
	s.delete(t, s.dir("r"))
	second := locktest.MustAcquire(t, locker.Acquire, "r")
	if again := s.queue(t, "r")[0]; sequence(again) != sequence(name) {
		t.Errorf("sequence numbers did not start again: %s, %s", name, again)
	}
	locktest.MustRelease(t, second)
	locktest.WantRising(t, first, second)
}

// TestContainers: directories that the server removes when they are empty.
func TestContainers(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	s.config.Containers = true
	link := newLink(t, s.Addr())
	locker := s.locker(t, longTTL, link.Addr())
	first := locktest.MustAcquire(t, locker.Acquire, "r")
	if n := count(link.Paths(), "createContainer"); n != 1 {
		t.Errorf("%d containers, want that of the resource alone", n)
	}
	locktest.MustRelease(t, first)
	s.delete(t, s.dir("r"))
	second := locktest.MustAcquire(t, locker.AcquireShared, "r")
	locktest.WantRising(t, first, second)
	locktest.MustRelease(t, second)
}

// TestContainersGo: the server removes the directory of a resource that nobody
// locks, and never the one of somebody who is about to.
func TestContainersGo(t *testing.T) {
	t.Parallel()
	server := testenv.StartZooKeeper(t, testenv.ZooKeeperConfig{Flags: []string{
		"-Dznode.container.checkIntervalMs=5", "-Dznode.container.maxPerMinute=60000",
	}})
	s := newService(t, server)
	s.config.Containers = true
	locker := s.near(t)
	var last locks.Lease
	for range 20 {
		lease := locktest.MustAcquire(t, locker.Acquire, "r")
		if last != nil {
			locktest.WantRising(t, last, lease)
		}
		locktest.WantHeld(t, lease)
		locktest.MustRelease(t, lease)
		last = lease
		locktest.Await(t, func() bool { return !slices.Contains(s.children(t, s.root), "r") })
	}
	// With a removal at any moment.
	for range 300 {
		lease := locktest.MustAcquire(t, locker.Acquire, "r")
		locktest.WantRising(t, last, lease)
		locktest.MustRelease(t, lease)
		last = lease
	}
}

// TestIssuerIsDeleted: whoever removes the issuer makes the next grant have
// another, also if it was waited for.
func TestIssuerIsDeleted(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	locker, other := s.near(t), s.near(t)
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	wait := locktest.Background(locktest.Context(t), t, other.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	dir := s.root + "/.issuer"
	ids := s.children(t, dir)
	if len(ids) != 1 || ids[0] != lease.Token().Issuer {
		t.Fatalf("issuers %q, token %v", ids, lease.Token())
	}
	s.delete(t, dir+"/"+ids[0])
	locktest.MustRelease(t, lease)
	next := locktest.WantGrant(t, wait)
	locktest.MustRelease(t, next)
	if next.Token().Issuer == ids[0] {
		t.Error("the issuer that was removed")
	}
	s.delete(t, dir+"/"+next.Token().Issuer)
	s.delete(t, dir)
	last := locktest.MustAcquire(t, locker.Acquire, "r") // has used the first one
	if last.Token().Issuer == next.Token().Issuer || last.Token().Issuer == ids[0] {
		t.Error("an issuer that was removed")
	}
	locktest.MustRelease(t, last)
	s.create(t, dir+"/second", 0)
	if _, err := other.Acquire(locktest.Context(t), "r"); err == nil || !strings.Contains(err.Error(), "want one issuer") {
		t.Errorf("Acquire with two issuers: %v", err)
	}
	s.awaitEntries(t, "r", 0)
}

// TestIssuerChangesUnseen: the issuer is another when the connection comes back.
func TestIssuerChangesUnseen(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	far, link := s.far(t)
	first := locktest.MustAcquire(t, far.Acquire, "r")
	dir := s.root + "/.issuer"
	for i := range 5 {
		resource, after := fmt.Sprint("other", i), fmt.Sprint("issuer", i)
		locktest.MustRelease(t, locktest.MustAcquire(t, far.Acquire, resource))
		link.Refuse(true)
		// The request that is answered first on the new connection.
		wait := locktest.Background(locktest.Context(t), t, far.Acquire, resource)
		s.delete(t, dir+"/"+s.children(t, dir)[0])
		s.create(t, dir+"/"+after, 0)
		link.Refuse(false)
		lease := locktest.WantGrant(t, wait)
		if got := lease.Token().Issuer; got != after {
			t.Errorf("issuer %q, want %q", got, after)
		}
		locktest.MustRelease(t, lease)
	}
	locktest.MustRelease(t, first)
}

// TestRebuilt: an ensemble without its old data hands out low numbers again, as
// another issuer. It does not let clients in that have seen later transactions,
// so a new session has to be of a new client.
func TestRebuilt(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartZooKeeper(t, testenv.ZooKeeperConfig{}))
	locker := s.locker(t, shortTTL, s.Addr())
	before := locktest.MustAcquire(t, locker.Acquire, "r")
	s.server.Forget(t)
	s.Restart(t)
	locktest.WantLost(t, before)
	after := locktest.MustAcquire(t, locker.Acquire, "r")
	if after.Token().Issuer == before.Token().Issuer {
		t.Errorf("%v and %v have one issuer", before.Token(), after.Token())
	}
	locktest.MustRelease(t, after)
}

// TestOthersInTheDirectory: what other programs keep beside the locks neither
// holds them nor waits for them.
func TestOthersInTheDirectory(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	locker, other := s.near(t), s.near(t)
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
	for _, name := range []string{
		"lock-", "_c_0123456789abcdef0123456789abcdef-lock-", "read-", "write-", "__WRIT__", "x-1-2-",
		"fence-x-", "fence-x-A-", "fence-y-A-0000000000000001-", "fence-x-A-1-", "fence-x-A-0000000000000001",
	} {
		s.create(t, s.dir("r")+"/"+name, zk.FlagSequence)
	}
	s.create(t, s.dir("r")+"/fence-x-A-0000000000000001-1", 0)
	n := s.Entries(t, "r")
	lease := locktest.MustAcquire(t, locker.TryAcquire, "r")
	wait := locktest.Background(locktest.Context(t), t, other.AcquireShared, "r")
	s.awaitEntries(t, "r", n+2)
	locktest.MustRelease(t, lease)
	next := locktest.WantGrant(t, wait)
	locktest.WantRising(t, lease, next)
	locktest.MustRelease(t, next)
}

// TestForeignTouch: somebody writes to the node of a lock. It stays one.
func TestForeignTouch(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	locker, other := s.near(t), s.near(t)
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	path := s.dir("r") + "/" + s.queue(t, "r")[0]
	far, link := s.far(t)
	wait := locktest.Background(locktest.Context(t), t, far.Acquire, "r")
	locktest.Await(t, func() bool { return slices.Contains(link.Paths(), "getData") })
	s.awaitEntries(t, "r", 2)
	looks := count(link.Paths(), "getChildren2")
	for range 2 {
		if _, err := s.conn.Set(path, []byte("touched"), -1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.TryAcquire(locktest.Context(t), "r"); !errors.Is(err, locks.ErrHeld) {
		t.Errorf("TryAcquire: %v", err)
	}
	locktest.WantHeld(t, lease)
	locktest.Await(t, func() bool { return count(link.Paths(), "getChildren2") >= looks+1 || len(wait) > 0 })
	if len(wait) > 0 {
		t.Fatal("granted because somebody touched the node of the holder")
	}
	s.Break(t, "r", lease.Token())
	locktest.WantLost(t, lease)
	locktest.MustRelease(t, locktest.WantGrant(t, wait))
}
