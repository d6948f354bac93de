package etcdlock

import "context"

// sweep removes the key of a lease that is over, in the background: until it is
// gone or the session is, which takes the key with it. What etcd does not let
// go at once costs the session: it takes no new locks, so that it ends with
// those that it has.
func (l *Locker) sweep(s *session, p *place) {
	l.spawn(func() {
		for s.ctx.Err() == nil {
			ctx, cancel := context.WithTimeout(s.ctx, s.ttl/3)
			_, err := l.remove(ctx, p)
			cancel()
			if err == nil {
				s.freeSlot(p)
				return
			}
			if s.ctx.Err() != nil {
				return
			}
			l.config.Logger.Warn("remove key of a lock", keyHolder, p.holder, keyError, err)
			s.retire()
			sleep(s.ctx, s.ttl/30)
		}
	})
}
