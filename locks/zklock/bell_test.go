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
