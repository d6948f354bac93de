package gateway

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// closes counts the ends of connections.
type closes struct {
	net.Conn

	once sync.Once
	n    *atomic.Int32
}

func (c *closes) Close() error {
	c.once.Do(func() { c.n.Add(1) })
	return c.Conn.Close()
}

// Net/http fails a request whose connection is closed for an idle one just before
// its answer is handed on. So a gateway that is retired, as by a reload, closes none
// before its last request has ended, and then all.
func TestRetiredInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, succeeded := range []bool{false, true} { // by one that goes the same way, and is what is retired then
		s := newSite(t)
		var opened, closed atomic.Int32
		s.config = func(c *Config) {
			c.Upstream.Transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				opened.Add(1)
				return &closes{Conn: conn, n: &closed}, nil
			}
		}
		p := s.proxy(t)
		g := s.made
		p.put(t, "k", "v", number(1))
		held := s.link.Hold(s3link.Op(s3link.PutObject), 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.do(t, http.MethodPut, "/held", "v", nil, number(1))
		}()
		<-held.Taken()
		p.put(t, "k", "another", number(1)) // on another connection, which is idle now
		before := closed.Load()
		if succeeded {
			next, err := g.Successor(g.config)
			if err != nil {
				t.Fatal(err)
			}
			g.Yield(next)
			g = next
		}
		g.Retire()
		if n := closed.Load() - before; n > 0 {
			t.Errorf("%d connections were closed while a request was served", n)
		}
		held.Abandon()
		<-ended
		deadline := time.Now().Add(30 * time.Second)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ; closed.Load() < opened.Load(); <-tick.C {
			if time.Now().After(deadline) {
				t.Fatalf("of %d connections %d were closed", opened.Load(), closed.Load())
			}
		}
	}
}

// A successor has the stores that it would open alike, and no others.
func TestSuccessorsStores(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config = func(c *Config) { c.Resources = []Resource{{"one", "a/", "orders"}, {"two", "", "orders"}} }
	s.proxy(t)
	g := s.made
	store := func(g *Gateway, bucket string) any {
		t.Helper()
		store, err := g.stores.get(bucket)
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	for what, c := range map[string]struct {
		change func(c *Config)
		same   map[string]bool
	}{
		"nothing":     {func(*Config) {}, map[string]bool{"one": true, "two": true, "other": true}},
		"clients":     {func(c *Config) { c.Clients = nil }, map[string]bool{"one": true, "two": true, "other": true}},
		"a prefix":    {func(c *Config) { c.Resources = append(slices.Clone(c.Resources), Resource{"one", "b/", "stock"}) }, map[string]bool{"two": true, "other": true}},
		"a new one":   {func(c *Config) { c.Resources = append(slices.Clone(c.Resources), Resource{"other", "", "stock"}) }, map[string]bool{"one": true, "two": true}},
		"a resource":  {func(c *Config) { c.Resources = []Resource{{"two", "", "stock"}, {"one", "a/", "orders"}} }, map[string]bool{"one": true, "other": true}},
		"the order":   {func(c *Config) { c.Resources = []Resource{c.Resources[1], c.Resources[0]} }, map[string]bool{"one": true, "two": true, "other": true}},
		"legacy":      {func(c *Config) { c.Legacy = true }, nil},
		"the policy":  {func(c *Config) { c.Untokened = Deny }, nil},
		"the store":   {func(c *Config) { c.Upstream.Transport = &http.Transport{} }, nil},
		"its secrets": {func(c *Config) { c.Upstream.SecretKey = "another" }, nil},
	} {
		config := g.config
		c.change(&config)
		next, err := g.Successor(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, bucket := range []string{"one", "two", "other"} {
			if same := store(next, bucket) == store(g, bucket); same != c.same[bucket] {
				t.Errorf("%s changes: the store of %q is the same: %v", what, bucket, same)
			}
		}
		g.Yield(next)
		for at := range next.pool.m {
			if at != next.stores.rule(at.bucket) {
				t.Errorf("%s changes: one of %q is kept", what, at.bucket)
			}
		}
	}
}
