package zklock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/zklock/internal/zkconn"
)

// issuerName is the directory beside those of the resources whose only child's
// name is the issuer.
const issuerName = ".issuer"

func (l *Locker) issuerDir() string { return l.config.Root + "/" + issuerName }

// issuer is what a session knows of the issuer. It has a watch on it, and the
// event of a watch comes before every answer, and every other event, that shows
// the same state or a later one. So what is known when a grant is decided is what
// was true then.
type issuer struct {
	mu sync.Mutex
	known
}

type known struct {
	id          string // "" if it has to be read
	connections int    // of the session then: on a new one it has to be read again
	watched     bool   // the client has a watch
	events      int    // how many there were
}

// changed takes an event of the watch.
func (i *issuer) changed(zk.EventType) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known = known{events: i.events + 1}
}

// theIssuer returns the issuer, and makes it if there is none.
func (s *zkSession) theIssuer(ctx context.Context) (string, error) {
	dir := s.locker.issuerDir()
	for {
		connections := s.Connections()
		s.issuer.mu.Lock()
		known := s.issuer.known
		s.issuer.mu.Unlock()
		if known.id != "" && known.connections == connections {
			return known.id, nil
		}
		// A watch that the client has is renewed by itself on a new connection,
		// and a session that is too young for one does without.
		watch := !known.watched && s.Settled()
		ids, err := s.readIssuer(ctx, dir, watch)
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && len(ids) == 0:
			if err := s.makeIssuer(ctx, dir); err != nil {
				return "", err
			}
			continue
		case err != nil:
			return "", denied(err, "read", dir)
		case len(ids) > 1 || guard.ValidateID(ids[0]) != nil:
			return "", fmt.Errorf("%s has the children %q, want one issuer of [A-Za-z0-9_-]{1,%d}", dir, ids, guard.MaxIDLen)
		}
		if !known.watched && !watch {
			return ids[0], nil
		}
		s.issuer.mu.Lock()
		if s.issuer.events == known.events {
			s.issuer.id, s.issuer.connections, s.issuer.watched = ids[0], connections, true
		}
		s.issuer.mu.Unlock()
	}
}

// readIssuer reads the names in the issuer's directory.
func (s *zkSession) readIssuer(ctx context.Context, dir string, watch bool) (ids []string, err error) {
	if !watch {
		err = s.Retry(ctx, func() (err error) {
			ids, err = zkconn.Ask(ctx, s.Session, children(dir))
			return err
		})
		return ids, err
	}
	w := s.Watch(dir, s.issuer.changed)
	err = s.Arm(ctx, dir, func() (err error) {
		ids, err = zkconn.Ask(ctx, s.Session, func(c *zk.Conn) ([]string, error) {
			ids, _, _, err := c.ChildrenW(dir)
			return ids, err
		})
		return err
	})
	if err != nil {
		w.Stop()
	}
	return ids, err
}

// makeIssuer makes an issuer unless somebody else is faster: the version of the
// directory lets only one of them succeed.
func (s *zkSession) makeIssuer(ctx context.Context, dir string) error {
	if err := s.mkdir(ctx, dir); err != nil {
		return err
	}
	type listing struct {
		names   int
		version int32
	}
	err := s.Retry(ctx, func() error {
		now, err := zkconn.Ask(ctx, s.Session, func(c *zk.Conn) (listing, error) {
			names, stat, err := c.Children(dir)
			if err != nil {
				return listing{}, err
			}
			return listing{len(names), stat.Version}, nil
		})
		if err != nil || now.names > 0 {
			return err
		}
		_, err = zkconn.Ask(ctx, s.Session, func(c *zk.Conn) ([]zk.MultiResponse, error) {
			return c.Multi(
				&zk.SetDataRequest{Path: dir, Version: now.version},
				&zk.CreateRequest{Path: dir + "/" + locks.NewID(), Acl: s.locker.config.ACL},
			)
		})
		if errors.Is(err, zk.ErrBadVersion) {
			return nil // the other one's is there
		}
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil // removed again: the caller looks anew
	}
	return denied(err, "make the issuer in", dir)
}
