package zklock

import (
	"context"
	"errors"

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
	_, err := ask(ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(path, -1) })
	return err
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
