package gateway

import (
	"sync"
	"sync/atomic"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/attempt"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/bypass"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/etag"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/upstream"
)

// What a gateway hands on to the one that follows it, as after a reload: clients are told
// nothing of that, and what they have seen and were told is as before (I9).

// heritage is what each has from the one before.
type heritage struct {
	repeats attempt.Memory
	parts   etag.Memory
	gate    bypass.Gate // of the writes that are forwarded
}

// way is the way to the store, with what is remembered of its buckets. Those have one
// who have one store.
type way struct {
	store *upstream.Upstream
	core  minio.Core // of store
	pool  pool

	serving sync.RWMutex // read-locked by each request
	retired atomic.Bool
}

// Successor returns the gateway for c that is to serve when g does not any more. It goes
// to the store by the same way if c says the same of it, its transport included.
func (g *Gateway) Successor(c Config) (*Gateway, error) {
	if c.Upstream == g.config.Upstream {
		return newGateway(c, g.way, g.heritage), nil
	}
	next, err := New(c)
	if err == nil {
		next.heritage = g.heritage
	}
	return next, err
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

// Yield is Retire, when next has begun to serve.
func (g *Gateway) Yield(next *Gateway) {
	if next.way != g.way {
		g.Retire()
		return
	}
	next.stores.keep()
}

// Retire closes the idle connections to the store when the last request has ended that
// goes this way. There will be no more.
func (g *Gateway) Retire() {
	g.retired.Store(true)
	g.restRetired()
}

// Rest closes the connections to the store that nobody uses.
func (g *Gateway) Rest() { g.store.Rest() }

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
