package gateway

import (
	"context"
	"net"
	"net/http"
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
