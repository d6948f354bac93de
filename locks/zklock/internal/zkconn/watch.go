package zkconn

import (
	"context"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/locks/internal/wait"
)

// Watch tells once that something happened to a node. The client has a channel
// for each watch; this is a function, so that a lock that is held needs no
// goroutine.
type Watch struct {
	session *Session
	path    string
	// told is called at most once, and must not block.
	told func(zk.EventType)
}

// Watch has told called when the node at path changes or goes, from a later
// Arm on.
func (s *Session) Watch(path string, told func(zk.EventType)) *Watch {
	w := &Watch{s, path, told}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[path] = append(s.watches[path], w)
	return w
}

// Arm sets the watch and reads the node; its error is zk.ErrNoNode, and the
// watch is not set, if there is none. After a lost connection the client sets
// it again.
func (w *Watch) Arm(ctx context.Context) (data []byte, err error) {
	s := w.session
	err = s.Arm(ctx, w.path, func() (err error) {
		data, err = Ask(ctx, s, func(c *zk.Conn) ([]byte, error) {
			// Not ExistsW: its watch on a node that never comes would stay.
			data, _, _, err := c.GetW(w.path)
			return data, err
		})
		return err
	})
	return data, err
}

// ArmMissing sets the watch on a node that is not there, and tells when it comes.
func (w *Watch) ArmMissing(ctx context.Context) error {
	s := w.session
	return s.Arm(ctx, w.path, func() error {
		_, err := Ask(ctx, s, func(c *zk.Conn) (bool, error) {
			exists, _, _, err := c.ExistsW(w.path)
			return exists, err
		})
		return err
	})
}

// settleTime is how old a session has to be before it sets watches. While
// go-zookeeper 1.0.4 opens a connection it looks whether it has watches to be
// set again, at the same time as it already takes answers: a data race, if one
// of them sets a watch. See also wire.hold.
const settleTime = 100 * time.Millisecond

// Settled reports whether the session may set watches.
func (s *Session) Settled() bool { return time.Since(s.born) >= settleTime }

// Arm sends a request that sets a watch on path, until it is answered.
func (s *Session) Arm(ctx context.Context, path string, request func() error) error {
	if !s.Settled() && !wait.Sleep(ctx, settleTime-time.Since(s.born)) {
		return wait.Ended(ctx)
	}
	return s.Retry(ctx, func() error {
		s.arms(path, 1)
		err := request()
		if err != nil && ctx.Err() == nil {
			s.arms(path, -1)
		}
		return err
	})
}

// arms counts the watches of the client on path, until one of them has told: that
// ends all of them.
func (s *Session) arms(path string, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.armed[path] += more; s.armed[path] <= 0 {
		delete(s.armed, path)
	}
}

// MayWatch reports whether the client may have a watch on path.
func (s *Session) MayWatch(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.armed[path] > 0
}

// watching reports whether the client may have watches.
func (s *Session) watching() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.armed) > 0
}

// Stop has nobody told any more. The client keeps the watch.
func (w *Watch) Stop() {
	s := w.session
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(s.watches[w.path], func(other *Watch) bool { return other == w })
	if s.watches[w.path] = rest; len(rest) == 0 {
		delete(s.watches, w.path)
	}
}

// happened takes the events of the client. It must not block.
func (s *Session) happened(event zk.Event) {
	if event.Type == zk.EventSession || event.Type == zk.EventNotWatching {
		return
	}
	s.mu.Lock()
	told := s.watches[event.Path]
	delete(s.watches, event.Path)
	delete(s.armed, event.Path)
	s.mu.Unlock()
	for _, w := range told {
		w.told(event.Type)
	}
}
