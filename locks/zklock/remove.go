package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/locks/zklock/internal/zkconn"
)

// remove takes p out of its queue for good, and reports whether it was in it.
// First it finds out what became of a creation that nobody waited for.
func (s *zkSession) remove(ctx context.Context, p *place) (found bool, err error) {
	if p.asked != nil {
		if _, err := zkconn.Await(ctx, s.Session, p.asked); !p.asked.Done() {
			return false, err
		}
		results, err := p.asked.Result()
		p.asked = nil
		switch {
		case err == nil:
			err = p.created(results, s.locker.config.Number)
		case zkconn.Answered(err):
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
	err = s.Retry(ctx, func() error {
		err := s.delete(ctx, p)
		switch {
		case err == nil:
			found = true
		case errors.Is(err, zk.ErrNoNode):
			found = lost // what an attempt that was not answered removed was there
			return nil
		case !zkconn.Answered(err):
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
func (s *zkSession) delete(ctx context.Context, p *place) error {
	if p.single {
		return s.deleteSingle(ctx, p)
	}
	path := p.path
	if p.rings {
		ops := append(ring(p.bell(p.entry), s.locker.config.ACL), &zk.DeleteRequest{Path: path, Version: -1})
		_, err := zkconn.Ask(ctx, s.Session, func(c *zk.Conn) ([]zk.MultiResponse, error) { return c.Multi(ops...) })
		if err == nil || errors.Is(err, zk.ErrNoNode) || !zkconn.Answered(err) || s.Over() != nil || ctx.Err() != nil {
			return err
		}
		// It may not make the bell, or somebody else has: those behind look.
	}
	_, err := zkconn.Ask(ctx, s.Session, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(path, -1) })
	return err
}

// silence removes, in the background, the watches that wait for the bell of an
// entry that is gone without it: the client and the server would keep them for
// ever. It does so by ringing, which after that event tells nobody anything.
func (s *zkSession) silence(bell string) {
	if !s.MayWatch(bell) {
		return
	}
	s.locker.sessions.Go(func() {
		err := s.Retry(s.Context(), func() error {
			if !s.MayWatch(bell) {
				return nil
			}
			_, err := zkconn.Ask(s.Context(), s.Session, func(c *zk.Conn) ([]zk.MultiResponse, error) {
				return c.Multi(ring(bell, s.locker.config.ACL)...)
			})
			return err
		})
		if err != nil {
			s.locker.config.Logger.Debug("silence a bell", keyError, err)
		}
	})
}

// ring is the operations that make and remove a bell.
func ring(bell string, acl []zk.ACL) []any {
	return []any{&zk.CreateRequest{Path: bell, Acl: acl}, &zk.DeleteRequest{Path: bell, Version: -1}}
}

// sweep removes the node of a lease that is over, in the background: until it is
// gone or the session is, which takes the node with it.
func (le *lease) sweep() {
	s := le.session
	s.locker.sessions.Go(func() {
		s.Sweep(func(ctx context.Context) error {
			_, err := s.remove(ctx, &le.place)
			return err
		}, func(err error) {
			s.locker.config.Logger.Warn("remove node of a lock", keyHolder, le.Token().Holder, keyError, err)
		})
	})
}
