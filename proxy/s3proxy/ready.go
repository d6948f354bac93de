package s3proxy

import (
	"context"
	"fmt"
)

// Ready returns nil if the store is there for clients: it has answered a request,
// in whatever way. It need not be one that the store grants. While the proxy
// drains it is not ready. Ctx bounds how long that may take.
func (s *Server) Ready(ctx context.Context) error {
	if s.drain.Err() != nil {
		return errDraining
	}
	config := s.config.Load()
	if err := config.gateway.Probe(ctx); err != nil {
		return fmt.Errorf("store at %s: %w", config.Upstream.Endpoint, err)
	}
	return nil
}
