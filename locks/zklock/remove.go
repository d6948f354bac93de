package zklock

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"
)

// remove takes p out of its queue for good, and reports whether it was in it.
// First it finds out what became of a creation that nobody waited for.
func (s *session) remove(ctx context.Context, p *place) (found bool, err error) {
	if p.asked != nil {
		if _, err := await(ctx, s, p.asked); !isClosed(p.asked.done) {
			return false, err
		}
		results, err := p.asked.value, p.asked.err
		p.asked = nil
		switch {
		case err == nil:
			err = p.created(results, s.locker.config.Number)
		case answered(err):
			p.doubtful, err = false, nil
		default:
			err = nil
		}
		if err != nil {
			return false, err
		}
	}
	if p.doubtful {
		if err := s.find(ctx, p); err != nil {
			return false, err
		}
	}
	if p.path == "" {
		return false, nil
	}
	lost := false
	err = s.retry(ctx, func() error {
		err := s.delete(ctx, p)
		switch {
		case err == nil:
			found = true
		case errors.Is(err, zk.ErrNoNode):
			found = lost // what an attempt that was not answered removed was there
			return nil
		case !answered(err):
			lost = true
		}
		return err
	})
	if err == nil {
		p.path = ""
	}
	return found, denied(err, "delete a node in", p.dir)
}

// delete removes the node of p, whose path is known.
func (s *session) delete(ctx context.Context, p *place) error {
	if p.single {
		return s.deleteSingle(ctx, p)
	}
	path := p.path
	if !p.rings {
		_, err := ask(ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(path, -1) })
		return err
	}
	ops := append(ring(p.dir+"/"+p.entry.bell(), s.locker.config.ACL), &zk.DeleteRequest{Path: path, Version: -1})
	_, err := ask(ctx, s, func(c *zk.Conn) ([]zk.MultiResponse, error) { return c.Multi(ops...) })
	return err
}

// forget removes, in the background, the watches that wait for the bell of an
// entry that is gone without it: the client and the server would keep them for
// ever. It does so by ringing, which after that event tells nobody anything.
func (s *session) forget(path string) {
	cut := strings.LastIndexByte(path, '/') + 1
	e, ok := parseEntry(path[cut:])
	bell := path[:cut] + e.bell()
	if !ok || !s.waitsFor(bell) {
		return
	}
	s.locker.spawn(func() {
		err := s.retry(s.ctx, func() error {
			if !s.waitsFor(bell) {
				return nil
			}
			_, err := ask(s.ctx, s, func(c *zk.Conn) ([]zk.MultiResponse, error) { return c.Multi(ring(bell, s.locker.config.ACL)...) })
			return err
		})
		if err != nil {
			s.locker.config.Logger.Debug("forget a watch", keyError, err)
		}
	})
}

// ring is the operations that make and remove a bell.
func ring(bell string, acl []zk.ACL) []any {
	return []any{&zk.CreateRequest{Path: bell, Acl: acl}, &zk.DeleteRequest{Path: bell, Version: -1}}
}

// sweep removes the node of a lease that is over, in the background: until it is
// gone or the session is, which takes the node with it. What ZooKeeper does not
// let go at once costs the session: it takes no new locks, so that it ends with
// those that it has.
func (le *lease) sweep() {
	s, p := le.session, &le.place
	s.locker.spawn(func() {
		for s.ctx.Err() == nil {
			ctx, cancel := context.WithTimeout(s.ctx, s.locker.config.TTL/3)
			_, err := s.remove(ctx, p)
			cancel()
			if err == nil || s.ctx.Err() != nil {
				return
			}
			s.locker.config.Logger.Warn("remove node of a lock", keyHolder, le.token.Holder, keyError, err)
			s.retire()
			sleep(s.ctx, s.locker.config.TTL/30)
		}
	})
}
