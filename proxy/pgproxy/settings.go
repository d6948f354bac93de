package pgproxy

import (
	"context"
	"fmt"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/handshake"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay"
)

// settings is a Config that is in force, in the forms in which the two halves of
// a client's life take it.
type settings struct {
	Config

	handshake handshake.Config
	relay     relay.Config
}

// newSettings translates a config that is complete and valid.
func newSettings(c Config) (*settings, error) {
	at, err := socket.ParseAddress(c.Upstream.Address)
	if err != nil {
		return nil, fmt.Errorf("pgproxy: upstream: %w", err)
	}
	s := &settings{Config: c}
	s.handshake = handshake.Config{
		Upstream: handshake.Upstream{
			Address: at, TLSMode: handshake.TLSMode(c.Upstream.TLSMode), TLS: c.Upstream.TLS,
			DirectTLS: c.Upstream.DirectTLS, ConnectTimeout: c.Upstream.ConnectTimeout,
		},
		TLS:              (*handshake.TLS)(c.TLS),
		AllowReplication: c.AllowReplication,
		Timeout:          c.HandshakeTimeout,
		Socket:           socket.Options{KeepAlive: c.KeepAlive, UserTimeout: c.UserTimeout},
		Metrics:          handshake.Metrics{Refused: c.Metrics.refused, Cancels: c.Metrics.cancels},
	}
	s.relay = relay.Config{
		Untokened: gate.Policy(c.Untokened),
		ClaimWait: c.ClaimWait, Evict: c.Evict,
		IdleInTransaction: c.IdleInTransaction,
		MaxMessage:        c.MaxMessage,
		LogStatements:     c.LogStatements,
		Cancel:            func(ctx context.Context, secret []byte) error { return handshake.Cancel(ctx, &s.handshake, secret) },
		Metrics:           &c.Metrics.relay,
	}
	return s, nil
}
