package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/operation"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/sigv4"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/upstream"
)

// Policy is what requests without a token may do.
type Policy uint8

const (
	// ReadOnly: they may read.
	ReadOnly Policy = iota
	// Deny: nothing.
	Deny
	// Allow: what they like with keys that no resource covers, which are not
	// fenced at all; with the others read.
	Allow
)

// Config is what a Gateway works by. It is complete and valid.
type Config struct {
	// Upstream is the store.
	Upstream Upstream
	// Clients are who may come.
	Clients []Client
	// Untokened is what they may do without a token.
	Untokened Policy
	// Resources are what keys belong to.
	Resources []Resource
	// Legacy admits objects that are not framed.
	Legacy bool
	// MaxBodyTime is how long a body may make no progress, either way.
	MaxBodyTime time.Duration
	// Domains are those in front of which the host names the bucket.
	Domains []string
	// Metrics are counted in.
	Metrics *Metrics
	// Log gets one line for each refusal.
	Log *slog.Logger
}

// Upstream is the store, and who the proxy is there. The gateway closes the idle
// connections of its transport at the end.
type Upstream = upstream.Config

// Client is somebody who may come.
type Client struct {
	AccessKey, SecretKey string
	// Buckets are those that it may use, "*" alone for all.
	Buckets []string
	// ReadOnly refuses its writes.
	ReadOnly bool
}

func (c *Client) may(bucket string) bool {
	return slices.Contains(c.Buckets, bucket) || slices.Contains(c.Buckets, "*")
}

// Resource says that the keys of a bucket that begin with Prefix belong to a
// resource.
type Resource struct{ Bucket, Prefix, Resource string }

// Gateway answers requests. Make it with New.
type Gateway struct {
	config   Config
	log      *slog.Logger
	metrics  *Metrics
	clients  map[string]*Client
	verifier *sigv4.Verifier
	handlers map[operation.Name]func(*exchange) error
	stores   stores
	parser   *operation.Parser
	buffers  sync.Pool // of bufferSize
	patience time.Duration

	*way
	*heritage
}

// New returns a gateway for c. It asks nothing of the store yet.
func New(c Config) (*Gateway, error) {
	to, err := upstream.New(c.Upstream, upstream.Metrics{Claims: c.Metrics.Claims, Seconds: c.Metrics.UpstreamSeconds})
	if err != nil {
		return nil, err
	}
	return newGateway(c, &way{store: to, core: to.Core}, new(heritage)), nil
}

func newGateway(c Config, w *way, h *heritage) *Gateway {
	g := &Gateway{config: c, log: c.Log, metrics: c.Metrics, patience: defaultPatience, clients: make(map[string]*Client, len(c.Clients)), handlers: handlers(), way: w, heritage: h}
	for i := range c.Clients {
		g.clients[c.Clients[i].AccessKey] = &c.Clients[i]
	}
	g.verifier = sigv4.New(sigv4.Config{Region: c.Upstream.Region, Secret: g.secret})
	g.stores = stores{pool: &w.pool, rules: rulesOf(&c), open: g.openStore}
	g.parser = operation.NewParser(c.Domains)
	g.buffers.New = func() any { b := make([]byte, bufferSize); return &b }
	return g
}

func (g *Gateway) secret(accessKey string) (string, bool) {
	c, ok := g.clients[accessKey]
	if !ok {
		return "", false
	}
	return c.SecretKey, true
}

// uploadKey is what the ids of uploads are authenticated with. Proxies of one
// store have one.
func (g *Gateway) uploadKey() []byte {
	mac := hmac.New(sha256.New, []byte(g.config.Upstream.SecretKey))
	mac.Write([]byte("fenceproxy: ids of uploads"))
	return mac.Sum(nil)
}

// Probe asks the store for anything, and returns nil if it answers.
func (g *Gateway) Probe(ctx context.Context) error { return g.store.Probe(ctx) }

// covered returns the resource that a key belongs to by the configuration; ""
// if none.
func (g *Gateway) covered(bucket, key string) string {
	best, resource := -1, ""
	for _, r := range g.config.Resources {
		if r.Bucket == bucket && strings.HasPrefix(key, r.Prefix) && len(r.Prefix) > best {
			best, resource = len(r.Prefix), r.Resource
		}
	}
	return resource
}

// touches reports whether a resource covers any key of the bucket.
func (g *Gateway) touches(bucket string) bool {
	return slices.ContainsFunc(g.config.Resources, func(r Resource) bool { return r.Bucket == bucket })
}
