package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/serveconfig"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy"
)

// planPostgres is the plan of listener i for Postgres.
func (s *service) planPostgres(config *serveconfig.Config, i int) (*plan, error) {
	listen, mode := config.Postgres[i].Listen, fs.FileMode(config.Postgres[i].SocketMode)
	p := &plan{protocol: "postgres", path: fmt.Sprintf("postgres[%d]", i), name: listen}
	c, err := s.postgres(config, i)
	if err != nil {
		return p, err
	}
	p.upstream, p.untokened = c.Upstream.Address, c.Untokened.String()
	p.listen = func() (net.Listener, error) { return pgproxy.Listen(context.Background(), listen, mode) }
	p.start = func() (server, error) { return pgproxy.New(c) }
	p.reload = func(running server, _ *plan) error { return running.(*pgproxy.Server).Reload(c) }
	return p, nil
}

// postgres is the configuration of listener i for Postgres, with its files read.
func (s *service) postgres(config *serveconfig.Config, i int) (pgproxy.Config, error) {
	p := config.Postgres[i]
	clients, upstream, err := config.LoadTLS(i)
	if err != nil {
		return pgproxy.Config{}, err
	}
	c := pgproxy.Config{
		Upstream: pgproxy.Upstream{
			Address: p.Upstream.Address, TLS: upstream, DirectTLS: p.Upstream.TLS.Direct, ConnectTimeout: p.Upstream.ConnectTimeout,
		},
		ClaimWait: p.ClaimWait, Evict: p.Evict, MaxConnections: p.MaxConnections, IdleInTransaction: p.IdleInTransactionTimeout,
		AllowReplication: p.AllowReplication, HandshakeTimeout: p.HandshakeTimeout,
		KeepAlive: orNever(p.KeepAlive), UserTimeout: orNever(p.UserTimeout), MaxMessage: int(p.MaxMessage),
		Logger: s.log.With("listen", p.Listen), LogStatements: config.Log.Statements,
	}
	if clients != nil {
		c.TLS = &pgproxy.TLS{Config: clients, Required: p.TLS.Required, VerifyUser: p.TLS.VerifyUser}
	}
	err = errors.Join(c.Untokened.UnmarshalText([]byte(p.Untokened)), c.Upstream.TLSMode.UnmarshalText([]byte(p.Upstream.TLS.Mode)))
	if err != nil {
		return pgproxy.Config{}, err
	}
	if c.Metrics, err = metricsOf(s, "postgres", p.Listen, pgproxy.NewMetrics); err != nil {
		return pgproxy.Config{}, err
	}
	_, err = pgproxy.New(c)
	return c, err
}

// orNever is a duration of the configuration, where 0 is never, for pgproxy,
// where that is below 0.
func orNever(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// socketsThatStay are the keys of permissions of sockets that are there already.
func socketsThatStay(was, next *serveconfig.Config) (keys []string) {
	for i, p := range next.Postgres {
		for _, q := range was.Postgres {
			if q.Listen == p.Listen && q.SocketMode != p.SocketMode {
				keys = append(keys, fmt.Sprintf("postgres[%d].socket_mode", i))
			}
		}
	}
	return keys
}
