package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/attempt"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/bypass"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/etag"
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
	store    *upstream.Upstream
	core     minio.Core // of store
	stores   stores
	parser   *operation.Parser
	buffers  sync.Pool // of bufferSize
	patience time.Duration
	repeats  attempt.Memory
	parts    etag.Memory
	gate     *bypass.Gate // of writes that are forwarded; also of the gateways before

	serving sync.RWMutex // read-locked by each request
	retired atomic.Bool
}

// New returns a gateway for c. It asks nothing of the store yet.
func New(c Config) (*Gateway, error) {
	g := &Gateway{gate: new(bypass.Gate), config: c, log: c.Log, metrics: c.Metrics, patience: defaultPatience, clients: make(map[string]*Client, len(c.Clients)), handlers: handlers()}
	for i := range c.Clients {
		g.clients[c.Clients[i].AccessKey] = &c.Clients[i]
	}
	g.verifier = sigv4.New(sigv4.Config{Region: c.Upstream.Region, Secret: g.secret})
	var err error
	g.store, err = upstream.New(c.Upstream, upstream.Metrics{Claims: c.Metrics.Claims, Seconds: c.Metrics.UpstreamSeconds})
	if err != nil {
		return nil, err
	}
	g.core = g.store.Core
	g.stores.open = g.openStore
	g.parser = operation.NewParser(c.Domains)
	g.buffers.New = func() any { b := make([]byte, bufferSize); return &b }
	return g, nil
}

// Successor returns the gateway for c that serves when g does not any more. What g still
// forwards then they know of both: see Cover.
func (g *Gateway) Successor(c Config) (*Gateway, error) {
	next, err := New(c)
	if err != nil {
		return nil, err
	}
	next.gate = g.gate
	return next, nil
}

// Write is one that is forwarded.
type Write = bypass.Write

// Cover sees to it that the gateways before forward no write any more that g would not,
// and returns those that are under way: g is to serve when they are over. A write without
// a token would overwrite what holders have written since (I1).
func (g *Gateway) Cover() []*Write {
	return g.gate.Shut(func(bucket, key string) bool {
		if key == "" {
			return g.config.Untokened != Allow || g.touches(bucket)
		}
		fenced, err := g.fenced(bucket, key)
		return fenced || err != nil
	})
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

// Retire closes the idle connections to the store when the last request that
// the gateway is serving has ended. It gets no more.
func (g *Gateway) Retire() {
	g.retired.Store(true)
	g.restRetired()
}

// Rest closes the connections to the store that nobody uses.
func (g *Gateway) Rest() { g.store.Rest() }

// Probe asks the store for anything, and returns nil if it answers.
func (g *Gateway) Probe(ctx context.Context) error { return g.store.Probe(ctx) }

func (g *Gateway) left() {
	g.serving.RUnlock()
	if g.retired.Load() {
		g.restRetired()
	}
}

// restRetired is Rest if no request is being served: net/http fails one whose
// connection is closed just before its answer is handed on.
func (g *Gateway) restRetired() {
	if g.serving.TryLock() { // it never waits, and so nobody waits for it
		defer g.serving.Unlock()
		g.Rest()
	}
}

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
