package zklock

import (
	"context"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// watch tells once that something happened to a node. The client has a channel
// for each watch; this is a function, so that a lock that is held needs no
// goroutine.
type watch struct {
	session *session
	path    string
	// told is called at most once, and must not block.
	told func(zk.EventType)
}

// watch has told called when the node at path changes or goes, from a later
// arm on.
func (s *session) watch(path string, told func(zk.EventType)) *watch {
	w := &watch{s, path, told}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[path] = append(s.watches[path], w)
	return w
}

// arm sets the watch and reads the node; its error is zk.ErrNoNode, and the
// watch is not set, if there is none. After a lost connection the client sets
// it again.
func (w *watch) arm(ctx context.Context) (data []byte, err error) {
	s := w.session
	err = s.arm(ctx, w.path, func() (err error) {
		data, err = ask(ctx, s, func(c *zk.Conn) ([]byte, error) {
			// Not ExistsW: its watch on a node that never comes would stay.
			data, _, _, err := c.GetW(w.path)
			return data, err
		})
		return err
	})
	return data, err
}

// armMissing sets the watch on a node that is not there, and tells when it comes.
func (w *watch) armMissing(ctx context.Context) error {
	s := w.session
	return s.arm(ctx, w.path, func() error {
		_, err := ask(ctx, s, func(c *zk.Conn) (bool, error) {
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

// settled reports whether the session may set watches.
func (s *session) settled() bool { return time.Since(s.born) >= settleTime }

// arm sends a request that sets a watch on path, until it is answered.
func (s *session) arm(ctx context.Context, path string, request func() error) error {
	if !s.settled() && !sleep(ctx, settleTime-time.Since(s.born)) {
		return ended(ctx)
	}
	return s.retry(ctx, func() error {
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
func (s *session) arms(path string, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.armed[path] += more; s.armed[path] <= 0 {
		delete(s.armed, path)
	}
}

// waitsFor reports whether the client may have a watch on path.
func (s *session) waitsFor(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.armed[path] > 0
}

// mayWatch reports whether the client may have watches.
func (s *session) mayWatch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.armed) > 0
}

func (w *watch) stop() {
	s := w.session
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(s.watches[w.path], func(other *watch) bool { return other == w })
	if s.watches[w.path] = rest; len(rest) == 0 {
		delete(s.watches, w.path)
	}
}

// happened takes the events of the client. It must not block.
func (s *session) happened(event zk.Event) {
	if event.Type == zk.EventSession || event.Type == zk.EventNotWatching {
		return
	}
	s.mu.Lock()
	told := s.watches[event.Path]
	delete(s.watches, event.Path)
	delete(s.armed, event.Path)
	if event.Path == s.locker.issuerDir() {
		s.issuer.changed()
	}
	s.mu.Unlock()
	if event.Type == zk.EventNodeDeleted {
		s.forget(event.Path)
	}
	for _, w := range told {
		w.told(event.Type)
	}
}
