package relay

import (
	"context"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
)

// watch ends the session from outside: when ctx ends, or when it idles and is to
// be drained or has idled in a transaction for too long.
func (s *session) watch(ctx context.Context, drain <-chan struct{}, done <-chan struct{}) (err error) {
	defer func() {
		if err != nil {
			s.cut()
		}
	}()
	defer s.recovered(&err)
	limit := s.Config.IdleInTransaction
	var tick <-chan time.Time
	if limit > 0 {
		ticker := time.NewTicker(max(limit/4, 10*time.Millisecond))
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			s.cut()
			return nil
		case <-drain:
			drain = nil
			s.mu.Lock()
			s.draining = true
			s.mu.Unlock()
			s.endIfIdle()
		case <-tick:
			if s.idlesTooLong(limit) {
				s.Config.Metrics.IdleKills.Inc()
				s.end(refusal.Idle())
				return nil
			}
		}
	}
}

func (s *session) cut() {
	_ = s.Client.Close()
	_ = s.Server.Close()
}

// endIfIdle ends a session that is to be drained and does nothing.
func (s *session) endIfIdle() {
	s.mu.Lock()
	idle := s.draining && s.opened && !s.telling && s.machine.Idle() && s.exchange == nil
	s.over = s.over || idle
	s.mu.Unlock()
	if idle {
		s.end(refusal.Shutdown())
	}
}

// idlesTooLong reports whether a session with a token has done nothing in a
// transaction for that long. Then it does no more.
func (s *session) idlesTooLong(limit time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = s.over || s.machine.InBlock() && s.token != "" && !s.idleFrom.IsZero() && time.Since(s.idleFrom) > limit
	return s.over
}
