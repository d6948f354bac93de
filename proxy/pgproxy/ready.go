package pgproxy

import (
	"context"
	"fmt"
	"net"
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
	if err := probe(ctx, config); err != nil {
		return fmt.Errorf("server at %s: %w", config.Upstream.Address, err)
	}
	return nil
}

// probe connects, and asks for TLS even where sessions have none: a server that
// merely has a port would not answer. If it has TLS, the handshake is done too,
// since Postgres would log one that breaks off.
func probe(ctx context.Context, config *Config) error {
	conn, err := dialServer(ctx, config, max(config.Upstream.TLSMode, TLSPrefer))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, ok := conn.(*net.UnixConn); ok { // where dialServer asks for nothing
		_, err = requestTLS(ctx, conn)
	}
	return err
}
