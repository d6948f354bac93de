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
	// once: there is one such Watch of a path at most, which stays as long as the
	// client may have a watch.
	once bool
}

// armed is what is known of the client's watches on a path, until one of them has
// told: that ends all of them.
type armed struct {
	n int // how many it may have
	// on is the connection on which one was set for sure, 0 if there is none. One
	// that was set on an earlier connection the client sets again, some time.
	on int
}

// Watch has told called when the node at path changes or goes, from a later
// Arm on.
func (s *Session) Watch(path string, told func(zk.EventType)) *Watch {
	w := &Watch{session: s, path: path, told: told}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[path] = append(s.watches[path], w)
	return w
}

// Once has told called when the node at path changes or goes, unless it was called
// before and somebody is to be told already. It lasts for as long as a watch of
// somebody else that was armed, also if that is stopped.
func (s *Session) Once(path string, told func(zk.EventType)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.watches[path], func(w *Watch) bool { return w.once }) {
		s.watches[path] = append(s.watches[path], &Watch{session: s, path: path, told: told, once: true})
	}
}

// Arm sets the watch and reads the node; its error is zk.ErrNoNode, and the
// watch is not set, if there is none. After a lost connection the client sets
// it again.
func (w *Watch) Arm(ctx context.Context) (data []byte, err error) {
	s := w.session
	if s.isArmed(w.path) {
		// The client would keep one more channel for as long as the node is there.
		err = s.Retry(ctx, func() (err error) {
			data, err = Ask(ctx, s, func(c *zk.Conn) ([]byte, error) {
				data, _, err := c.Get(w.path)
				return data, err
			})
			return err
		})
		return data, err
	}
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
	if s.isArmed(w.path) {
		return nil
	}
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
		a, connection := s.arming(path)
		err := request()
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case err == nil && s.connections == connection:
			a.on = connection
		case err != nil && ctx.Err() == nil:
			if a.n--; a.n == 0 && s.armed[path] == a {
				delete(s.armed, path)
			}
		}
		return err
	})
}

// arming says that the client may have one more watch on path, from now on.
func (s *Session) arming(path string) (a *armed, connection int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a = s.armed[path]
	if a == nil {
		a = &armed{}
		s.armed[path] = a
	}
	a.n++
	return a, s.connections
}

// isArmed reports whether the client has a watch on path that was set on this
// connection.
func (s *Session) isArmed(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.armed[path]
	return a != nil && a.on == s.connections
}

// MayWatch reports whether the client may have a watch on path.
func (s *Session) MayWatch(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.armed[path] != nil
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
	wanted := func(w *Watch) bool { return !w.once }
	if s.watches[w.path] = rest; s.armed[w.path] == nil && !slices.ContainsFunc(rest, wanted) || len(rest) == 0 {
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
