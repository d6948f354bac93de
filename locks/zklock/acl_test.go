package zklock_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

// TestACL: with an identity everything that is made is for that identity alone,
// the directories too, or strangers could delete the locks in them.
func TestACL(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	dial := zklock.Dial{Servers: []string{s.Addr()}, Auth: []zklock.Auth{{Scheme: "digest", Credentials: "me:secret"}}}
	config := zklock.Config{TTL: longTTL, Root: s.root + "/deeper"}
	locker, colleague := newLocker(t, dial, config), newLocker(t, dial, config)
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	wait := locktest.Background(locktest.Context(t), t, colleague.Acquire, "r")

	dir := config.Root + "/r"
	want := zk.DigestACL(zk.PermAll, "me", "secret")[0]
	for _, path := range []string{s.root, config.Root, config.Root + "/.issuer", config.Root + "/.issuer/" + lease.Token().Issuer, dir} {
		acl, _, err := s.conn.GetACL(path)
		// The digest is for those with the right to see it; that it is one is not.
		if err == nil && (len(acl) != 1 || acl[0].Scheme != want.Scheme) {
			t.Errorf("ACL of %s: %v", path, acl)
		}
		if err != nil && !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("ACL of %s: %v", path, err)
		}
		if _, _, err := s.conn.Children(path); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("a stranger lists %s: %v", path, err)
		}
	}
	if _, err := s.conn.Create(dir+"/lock-", nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a stranger queues up: %v", err)
	}

	stranger := newLocker(t, zklock.Dial{Servers: []string{s.Addr()}}, config)
	if _, err := stranger.Acquire(locktest.Context(t), "r"); !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), "ACL") {
		t.Errorf("Acquire as a stranger: %v", err)
	}
	locktest.MustRelease(t, lease)
	locktest.MustRelease(t, locktest.WantGrant(t, wait))

	// Authenticated again after a reconnection.
	link := newLink(t, s.Addr())
	dial.Servers = []string{link.Addr()}
	moved := newLocker(t, dial, config)
	lease = locktest.MustAcquire(t, moved.Acquire, "r")
	link.Cut()
	locktest.MustRelease(t, locktest.MustAcquire(t, moved.Acquire, "q"))
	locktest.MustRelease(t, lease)
}

// TestDenied: a lack of any permission is an error that says which, and leaves
// nothing.
func TestDenied(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	locker := s.near(t)
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
	for what, perms := range map[string]int32{
		"read": zk.PermAll &^ zk.PermRead, "write": zk.PermAll &^ zk.PermWrite, "create": zk.PermAll &^ zk.PermCreate,
	} {
		if _, err := s.conn.SetACL(s.dir("r"), zk.WorldACL(perms), -1); err != nil {
			t.Fatal(err)
		}
		lease, err := locker.TryAcquire(locktest.Context(t), "r")
		if lease != nil || !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), s.dir("r")) {
			t.Errorf("TryAcquire without the permission to %s: %v, %v", what, lease, err)
		}
	}
	if _, err := s.conn.SetACL(s.root, zk.WorldACL(zk.PermRead), -1); err != nil {
		t.Fatal(err)
	}
	if _, err := locker.Acquire(locktest.Context(t), "q"); !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), "make the directory "+s.dir("q")) {
		t.Errorf("Acquire where there may be no directory: %v", err)
	}
}

// TestStuckNode: a node that may not be deleted is not kept alive for longer
// than the other locks of its session, and takes none of them with it.
func TestStuckNode(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	locker := s.near(t)
	stuck, neighbour := locktest.MustAcquire(t, locker.Acquire, "stuck"), locktest.MustAcquire(t, locker.Acquire, "neighbour")
	if _, err := s.conn.SetACL(s.dir("stuck"), zk.WorldACL(zk.PermAll&^zk.PermDelete), -1); err != nil {
		t.Fatal(err)
	}
	if err := stuck.Release(locktest.Context(t)); !errors.Is(err, zk.ErrNoAuth) {
		t.Fatalf("Release: %v", err)
	}
	locktest.Await(t, func() bool { // from some time on new locks are on another session
		next := locktest.MustAcquire(t, locker.AcquireShared, "next")
		defer locktest.MustRelease(t, next)
		return session(s.queue(t, "next")[0]) != session(s.queue(t, "neighbour")[0])
	})
	if n := s.Entries(t, "stuck"); n != 1 {
		t.Fatalf("%d nodes", n)
	}
	locktest.WantHeld(t, neighbour)
	locktest.MustRelease(t, neighbour)
	s.awaitEntries(t, "stuck", 0)
}

// session is the session in the name of a node.
func session(name string) string { return strings.Split(name, "-")[3] }
