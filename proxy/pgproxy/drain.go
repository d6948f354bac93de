package pgproxy

import (
	"context"
	"time"
)

// Shutdown drains the server: it takes no more clients, sends those that are
// connecting away with FATAL 57P03, and ends each session with FATAL 57P01 when
// it is idle and outside of a transaction. It returns when all have ended and
// every Serve returns, or, with ctx's error, when ctx has ended: then the rest
// has been cut.
func (s *Server) Shutdown(ctx context.Context) error {
	sessions := s.live.Load()
	s.startDrain(errDraining) // first, so that whoever reads the line finds it true
	s.log.Info("draining", keySessions, sessions)
	calls := s.calls()
	for _, call := range calls {
		call.ln.Close()
	}
	progress := time.NewTicker(progressInterval)
	defer progress.Stop()
	var err error
	over := ctx.Done()
	for _, call := range calls {
		for waiting := true; waiting; {
			select {
			case <-call.done:
				waiting = false
			case <-over:
				over, err = nil, context.Cause(ctx)
				s.log.Warn("drained for too long, cutting what is left", keySessions, s.live.Load())
				s.stop()
			case <-progress.C:
				s.log.Info("draining", keySessions, s.live.Load())
			}
		}
	}
	s.stop()
	if err == nil {
		s.log.Info("drained")
	}
	return err
}

// calls are the calls of Serve that have not returned.
func (s *Server) calls() []*serving {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := make([]*serving, 0, len(s.serves))
	for call := range s.serves {
		calls = append(calls, call)
	}
	return calls
}
