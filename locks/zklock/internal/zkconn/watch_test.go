package zkconn

import (
	"reflect"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

// channels is how many watches the client keeps for path. It has no request under
// way.
func channels(s *Session, path string) int {
	n := 0
	for watches := reflect.ValueOf(s.conn).Elem().FieldByName("watchers").MapRange(); watches.Next(); {
		if watches.Key().FieldByName("path").String() == path {
			n += watches.Value().Len()
		}
	}
	return n
}

// TestWatchesAreShared: those who watch a node one after the other, and give up,
// leave one watch behind and not one each; and it still tells what was to be told
// in any case.
func TestWatchesAreShared(t *testing.T) {
	t.Parallel()
	ctx, s := testContext(t), serve(t, configOf(testenv.ZooKeeper(t).Addr()))
	path := "/watch-" + locks.NewID()
	if _, err := Ask(ctx, s, create(path, 0)); err != nil {
		t.Fatal(err)
	}
	stopped, once := make(chan zk.EventType, 99), make(chan zk.EventType, 99)
	missing := path + "-bell"
	watch := func() *Watch {
		t.Helper()
		w := s.Watch(path, func(e zk.EventType) { stopped <- e })
		s.Once(path, func(e zk.EventType) { once <- e })
		if _, err := w.Arm(ctx); err != nil {
			t.Fatal(err)
		}
		m := s.Watch(missing, func(e zk.EventType) { stopped <- e })
		if err := m.ArmMissing(ctx); err != nil {
			t.Fatal(err)
		}
		m.Stop()
		return w
	}
	for range 20 {
		watch().Stop()
	}
	for _, p := range []string{path, missing} {
		if n := channels(s, p); n != 1 {
			t.Errorf("the client has %d watches on %s", n, p)
		}
	}
	last := make(chan zk.EventType, 1)
	w := s.Watch(path, func(e zk.EventType) { last <- e })
	if _, err := w.Arm(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := Ask(ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(path, -1) }); err != nil {
		t.Fatal(err)
	}
	if e := <-last; e != zk.EventNodeDeleted {
		t.Errorf("told %v", e)
	}
	if e := <-once; e != zk.EventNodeDeleted || len(once)+len(stopped) > 0 {
		t.Errorf("told %v once, %d times more, and %d who stopped", e, len(once), len(stopped))
	}
	// A node that is gone leaves nothing.
	gone := s.Watch(path, nil)
	s.Once(path, nil)
	if _, err := gone.Arm(ctx); err == nil {
		t.Error("watch on nothing")
	}
	gone.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watches) > 0 || s.armed[path] != nil {
		t.Errorf("left: %v, %v", s.watches, s.armed)
	}
}
