package zklock_test

import (
	"math"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

// nearTheEnd is a service whose next node in the directory of r but two is the
// last one that has a sequence number of its own. ZooKeeper's counter does not
// wrap: it stays at 2147483647, or goes on below zero for as long as requests
// come close together (DataTree.createNode).
func nearTheEnd(t *testing.T) *service {
	t.Helper()
	s := newService(t, testenv.StartZooKeeper(t, testenv.ZooKeeperConfig{Flags: []string{"-Dzookeeper.digest.enabled=false"}}))
	s.create(t, s.root, 0)
	if _, err := s.conn.Create(s.dir("r"), nil, 0, zk.WorldACL(zk.PermAll&^zk.PermAdmin)); err != nil {
		t.Fatal(err)
	}
	s.server.SetSequence(t, s.dir("r"), math.MaxInt32-2)
	return s
}

// TestSequenceIsUsedUp: nobody is granted the lock by a number that others have
// too; all are, one after the other, when the directory has been made anew, with
// the ACL that it had.
func TestSequenceIsUsedUp(t *testing.T) {
	t.Parallel()
	s := nearTheEnd(t)
	held := locktest.MustAcquire(t, s.near(t).Acquire, "r")
	second := locktest.Background(locktest.Context(t), t, s.near(t).Acquire, "r")
	s.awaitEntries(t, "r", 2)
	lockers := []*zklock.Locker{s.near(t), s.near(t)}
	var later []<-chan locktest.Granted
	for i := range 6 {
		before := s.version(t, "r")
		later = append(later, locktest.Background(locktest.Context(t), t, lockers[i%2].Acquire, "r"))
		if i < 3 { // one after the other, so that the counter stays
			locktest.Await(t, func() bool { return s.version(t, "r") > before })
		}
	}
	if _, err := lockers[0].TryAcquire(locktest.Context(t), "r"); err == nil {
		t.Error("TryAcquire got a lock that is held")
	}
	locktest.MustRelease(t, held)
	last := locktest.WantGrant(t, second)
	locktest.WantRising(t, held, last)
	for range later {
		locktest.WantHeld(t, last)
		for _, wait := range later {
			if len(wait) > 0 {
				t.Fatal("two hold the lock")
			}
		}
		locktest.MustRelease(t, last)
		next := locktest.Granted{}
		locktest.Await(t, func() bool {
			for _, wait := range later {
				select {
				case next = <-wait:
					return true
				default:
				}
			}
			return false
		})
		if next.Err != nil {
			t.Fatal(next.Err)
		}
		locktest.WantRising(t, last, next.Lease)
		last = next.Lease
	}
	locktest.MustRelease(t, last)
	if names := s.queue(t, "r"); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
	if acl, _, err := s.conn.GetACL(s.dir("r")); err != nil || acl[0].Perms != zk.PermAll&^zk.PermAdmin {
		t.Errorf("the directory's ACL is %v, %v", acl, err)
	}
}

// version rises with each node that is made in the directory of resource.
func (s *service) version(t *testing.T, resource string) int32 {
	t.Helper()
	_, stat, err := s.conn.Get(s.dir(resource))
	if err != nil {
		t.Fatal(err)
	}
	return stat.Version
}

// TestNumbersAreUsedUp: with Sequence numbers somebody has to tell the resource
// that they start again.
func TestNumbersAreUsedUp(t *testing.T) {
	t.Parallel()
	s := nearTheEnd(t)
	s.config.Number = zklock.Sequence
	locker := s.near(t)
	for range 2 {
		locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
	}
	_, err := locker.Acquire(locktest.Context(t), "r")
	if err == nil || !strings.Contains(err.Error(), "used up") {
		t.Fatalf("Acquire: %v", err)
	}
	s.awaitEntries(t, "r", 0)
	s.delete(t, s.dir("r"))
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
}
