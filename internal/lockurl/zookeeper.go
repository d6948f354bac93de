package lockurl

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

func openZooKeeper(_ context.Context, t *Target, ttl time.Duration) (*Service, error) {
	tls, err := t.tlsConfig()
	if err != nil {
		return nil, err
	}
	dial := zklock.Dial{Servers: t.hosts, TLS: tls}
	if t.user != "" {
		dial.Auth = []zklock.Auth{{Scheme: "digest", Credentials: t.user + ":" + t.password}}
	}
	config := zklock.Config{TTL: ttl}
	if t.path != "" {
		config.Root = "/" + t.path
	}
	locker, err := zklock.New(dial, config)
	if err != nil {
		return nil, err
	}
	return &Service{Locker: locker, close: locker.Close}, nil
}

// DialHost connects to one of Hosts, by TLS if the URL says so, for what a
// Locker does not do.
func (t *Target) DialHost(ctx context.Context, host string) (net.Conn, error) {
	config, err := t.tlsConfig()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	if config == nil {
		return dialer.DialContext(ctx, "tcp", host)
	}
	return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", host)
}
