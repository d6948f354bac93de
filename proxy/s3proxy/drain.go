package s3proxy

import (
	"context"
	"time"
)

// Keys of log lines.
const keyRequests = "requests"

const progressInterval = 5 * time.Second // of Shutdown's log lines

// Shutdown drains the server: it takes no more clients, ends each connection when
// it has no request, and returns when every Serve has, or, with ctx's error, when
// ctx has ended: then the rest has been cut. A connection on which nothing was
// ever asked is waited for up to 5 s.
func (s *Server) Shutdown(ctx context.Context) error {
	s.startDrain(errDraining) // first, so that whoever reads the line finds it true
	s.log.Info("draining", keyRequests, s.live.Load())
	calls := s.calls()
	for _, call := range calls {
		call.http.Shutdown()
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
				s.log.Warn("drained for too long, cutting what is left", keyRequests, s.live.Load())
				s.stop()
			case <-progress.C:
				s.log.Info("draining", keyRequests, s.live.Load())
			}
		}
	}
	s.stop()
	if err == nil {
		s.log.Info("drained")
	}
	return err
}
