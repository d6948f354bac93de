package zklock_test

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

// TestBellCannotBeMade: a holder that had to wait releases its lock also where
// it may make no node any more, or where somebody made one with the name of its
// bell.
func TestBellCannotBeMade(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, s *service, holder string){
		"not permitted": func(t *testing.T, s *service, _ string) {
			t.Helper()
			if _, err := s.conn.SetACL(s.dir("r"), zk.WorldACL(zk.PermAll&^zk.PermCreate), -1); err != nil {
				t.Fatal(err)
			}
		},
		"there already": func(t *testing.T, s *service, holder string) {
			t.Helper()
			s.create(t, s.dir("r")+"/fence-bell-"+holder, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, testenv.ZooKeeper(t))
			first := locktest.MustAcquire(t, s.near(t).Acquire, "r")
			wait := locktest.Background(locktest.Context(t), t, s.near(t).Acquire, "r")
			s.awaitEntries(t, "r", 2)
			locktest.MustRelease(t, first)
			second := locktest.WantGrant(t, wait)
			spoil(t, s, second.Token().Holder)
			locktest.MustRelease(t, second)
			for _, node := range s.queue(t, "r") {
				if !strings.HasPrefix(node, "fence-bell-") {
					t.Errorf("left: %s", node)
				}
			}
		})
	}
}

// TestLostReplyNearABell: the replies to what only those send who are behind
// somebody who waits too, and to the release that rings.
func TestLostReplyNearABell(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"exists", "getData", "multi"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			s := newService(t, testenv.ZooKeeper(t))
			first := locktest.MustAcquire(t, s.near(t).Acquire, "r")
			wait := locktest.Background(locktest.Context(t), t, s.near(t).Acquire, "r")
			s.awaitEntries(t, "r", 2)
			far, link := s.far(t)
			before := len(link.Paths())
			drop := func() { link.DropReplyTo(func(path string) bool { return path == lost }, 1) }
			if lost != "multi" {
				drop()
			}
			last := locktest.Background(locktest.Context(t), t, far.Acquire, "r")
			s.awaitEntries(t, "r", 3)
			if lost == "exists" { // sent, not answered, and sent again
				locktest.Await(t, func() bool { return count(link.Paths()[before:], lost) > 1 })
			}
			locktest.WantHeld(t, first)
			if len(last) > 0 {
				t.Fatal("two hold the lock")
			}
			locktest.MustRelease(t, first)
			second := locktest.WantGrant(t, wait)
			locktest.MustRelease(t, second)
			third := locktest.WantGrant(t, last)
			locktest.WantRising(t, first, second, third)
			behind := locktest.Background(locktest.Context(t), t, s.near(t).Acquire, "r")
			s.awaitEntries(t, "r", 2)
			if lost == "multi" {
				drop()
			}
			locktest.MustRelease(t, third)
			locktest.MustRelease(t, locktest.WantGrant(t, behind))
			s.awaitEntries(t, "r", 0)
		})
	}
}
