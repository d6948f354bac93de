package zklock_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

// line is a queue of three writers, each on a session of its own: the first one
// holds, the last one is behind a link.
type line struct {
	*service
	held   locks.Lease
	middle *zklock.Locker
	second <-chan locktest.Granted
	give   context.CancelFunc // has the second one give up
	last   <-chan locktest.Granted
	link   *testenv.Link
	before int // requests of the last one before it came
}

func newLine(t *testing.T) *line {
	t.Helper()
	l := &line{service: newService(t, testenv.ZooKeeper(t))}
	far, link := l.far(t)
	l.link, l.middle = link, l.near(t)
	l.held = locktest.MustAcquire(t, l.near(t).Acquire, "r")
	ctx, give := context.WithCancel(locktest.Context(t))
	t.Cleanup(give)
	l.give = give
	l.second = locktest.Background(ctx, t, l.middle.Acquire, "r")
	l.awaitEntries(t, "r", 2)
	l.before = len(link.Paths())
	l.last = locktest.Background(locktest.Context(t), t, far.Acquire, "r")
	// The second getData is that of its own node, some time later.
	locktest.Await(t, func() bool { return l.sent("getData") == 2 })
	return l
}

func (l *line) sent(path string) int { return count(l.link.Paths()[l.before:], path) }

// TestGrantByEvent: the event that the holder has released the lock is the grant;
// nothing has to be read for it.
func TestGrantByEvent(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	locktest.MustRelease(t, l.held)
	second := locktest.WantGrant(t, l.second) // which was behind nobody but the holder
	locktest.MustRelease(t, second)
	last := locktest.WantGrant(t, l.last)
	locktest.WantRising(t, l.held, second, last)
	// The last two, in any order, are that of the issuer and that of its own node.
	got := l.link.Paths()[l.before:]
	if want := []string{"multi", "getChildren2", "exists", "getData"}; len(got) != 6 || !slices.Equal(got[:4], want) {
		t.Errorf("requests of the last one: %q, want %q and two more", got, want)
	}
	locktest.MustRelease(t, last)
	l.awaitEntries(t, "r", 0)
}

// TestNextGoesWithoutALock: the end of one that never held the lock is no grant
// for those behind it, whatever brought it about, and no watch of theirs is left.
func TestNextGoesWithoutALock(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, l *line, path string){
		"given up":      func(_ *testing.T, l *line, _ string) { l.give() },
		"session ended": func(_ *testing.T, l *line, _ string) { _ = l.middle.Close() },
		"deleted":       func(t *testing.T, l *line, path string) { t.Helper(); l.delete(t, path) },
		"touched": func(t *testing.T, l *line, path string) {
			t.Helper()
			if _, err := l.conn.Set(path, []byte("touched"), -1); err != nil {
				t.Fatal(err)
			}
			// It looks, and watches again.
			locktest.Await(t, func() bool { return l.sent("getData") == 3 })
			l.give()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t)
			looks := l.sent("getChildren2")
			end(t, l, l.dir("r")+"/"+l.queue(t, "r")[1])
			if g := <-l.second; g.Err == nil {
				t.Fatal("the second one was granted")
			}
			locktest.Await(t, func() bool { return l.sent("getChildren2") > looks && l.sent("multi") == 2 || len(l.last) > 0 })
			l.awaitEntries(t, "r", 2)
			locktest.WantHeld(t, l.held)
			if len(l.last) > 0 {
				t.Fatal("the last one was granted while the first one held")
			}
			locktest.MustRelease(t, l.held)
			locktest.MustRelease(t, locktest.WantGrant(t, l.last))
		})
	}
}

// TestOwnNodeGoesFirst: one whose node was deleted is not granted by what happens
// next, however soon.
func TestOwnNodeGoesFirst(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	near := s.near(t)
	for range 5 {
		held := locktest.MustAcquire(t, near.Acquire, "r")
		far, link := s.far(t)
		wait := locktest.Background(locktest.Context(t), t, far.Acquire, "r")
		locktest.Await(t, func() bool { return count(link.Paths(), "getData") == 2 })
		queue := s.queue(t, "r")
		if _, err := s.conn.Multi(
			&zk.DeleteRequest{Path: s.dir("r") + "/" + queue[1], Version: -1},
			&zk.DeleteRequest{Path: s.dir("r") + "/" + queue[0], Version: -1},
		); err != nil {
			t.Fatal(err)
		}
		if g := <-wait; !errors.Is(g.Err, locks.ErrLost) {
			t.Fatalf("Acquire: %v, %v", g.Lease, g.Err)
		}
		locktest.WantLost(t, held)
	}
}
