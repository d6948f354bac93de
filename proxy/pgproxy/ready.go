package pgproxy

import (
	"context"
	"fmt"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/handshake"
)

// Ready returns nil if the server is there for clients: a connection to it can
// be made, with as much TLS as the configuration wants, and it has answered. It
// does not log in, and leaves nothing in a log of Postgres. While the proxy
// drains it is not ready. Ctx bounds how long that may take.
func (s *Server) Ready(ctx context.Context) error {
	if s.drain.Err() != nil {
		return errDraining
	}
	config := s.config.Load()
	if err := handshake.Probe(ctx, &config.handshake); err != nil {
		return fmt.Errorf("server at %s: %w", config.Upstream.Address, err)
	}
	return nil
}
