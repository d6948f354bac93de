package serve

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/serveconfig"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy"
)

// planS3 is the plan of listener i for S3.
func (s *service) planS3(config *serveconfig.Config, i int) (*plan, error) {
	listen := config.S3[i].Listen
	p := &plan{protocol: "s3", path: fmt.Sprintf("s3[%d]", i), name: listen}
	c, err := s.s3(config, i)
	if err != nil {
		return p, err
	}
	p.upstream, p.untokened = c.Upstream.Endpoint, c.Untokened.String()
	p.listen = func() (net.Listener, error) {
		return (&net.ListenConfig{}).Listen(context.Background(), "tcp", listen)
	}
	p.start = func() (server, error) { return s3proxy.New(c) }
	p.times = [...]time.Duration{c.HeaderTimeout, c.IdleTimeout}
	p.reload = func(running server, earlier *plan) error {
		p.times = earlier.times
		c.HeaderTimeout, c.IdleTimeout = p.times[0], p.times[1]
		return running.(*s3proxy.Server).Reload(c)
	}
	return p, nil
}

// s3 is the configuration of listener i for S3, with its files read.
func (s *service) s3(config *serveconfig.Config, i int) (s3proxy.Config, error) {
	p := &config.S3[i]
	clients, upstream, err := config.LoadS3TLS(i)
	if err != nil {
		return s3proxy.Config{}, err
	}
	c := s3proxy.Config{
		Upstream: s3proxy.Upstream{
			Endpoint: p.Upstream.Endpoint, Region: p.Upstream.Region,
			AccessKey: p.Upstream.AccessKey, SecretKey: string(p.Upstream.SecretKey), TLS: upstream,
			ResponseTimeout: p.Upstream.ResponseTimeout,
		},
		TLS: clients, Legacy: p.Legacy, Domains: p.Domains,
		MaxBodyTime: p.MaxBodyTime, MaxConnections: p.MaxConnections, HeaderTimeout: p.HeaderTimeout, IdleTimeout: p.IdleTimeout,
		Logger: s.log.With("listen", p.Listen),
	}
	for _, client := range p.Clients {
		c.Clients = append(c.Clients, s3proxy.Client{
			AccessKey: client.AccessKey, SecretKey: string(client.SecretKey), Buckets: client.Buckets, ReadOnly: client.ReadOnly,
		})
	}
	for _, r := range p.Resources {
		c.Resources = append(c.Resources, s3proxy.Resource{Prefix: r.Prefix, Resource: r.Resource})
	}
	if err := c.Untokened.UnmarshalText([]byte(p.Untokened)); err != nil {
		return s3proxy.Config{}, err
	}
	if c.Metrics, err = metricsOf(s, "s3", p.Listen, s3proxy.NewMetrics); err != nil {
		return s3proxy.Config{}, err
	}
	_, err = s3proxy.New(c)
	return c, err
}

// timesThatStay are the keys of what the HTTP server of a listener that is there
// already was started with.
func timesThatStay(was, next *serveconfig.Config) (keys []string) {
	for i, p := range next.S3 {
		for _, q := range was.S3 {
			if q.Listen != p.Listen || q.Upstream.Endpoint != p.Upstream.Endpoint { // another server is started
				continue
			}
			if q.HeaderTimeout != p.HeaderTimeout {
				keys = append(keys, fmt.Sprintf("s3[%d].header_timeout", i))
			}
			if q.IdleTimeout != p.IdleTimeout {
				keys = append(keys, fmt.Sprintf("s3[%d].idle_timeout", i))
			}
		}
	}
	return keys
}
