package s3proxy

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// What clients do who only stand in the door; each leaves its connection open or closed.
func doors(t *testing.T, p *proxy, pool *x509.CertPool) []func(net.Conn) {
	t.Helper()
	hello := "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
	get := rawRequest(t, p, request{method: http.MethodGet, target: "/"}, "")
	say := func(text string, leave func(net.Conn)) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, text); leave(c) }
	}
	inside := func(text string, leave func(net.Conn)) func(net.Conn) {
		return func(c net.Conn) {
			secure := tls.Client(c, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
			_, _ = io.WriteString(secure, text)
			leave(secure)
		}
	}
	stay := func(net.Conn) {}
	all := []func(net.Conn){
		say(hello, stay), say("", stay), say(get, stay), inside(get[:20], stay), inside(get+get+get, stay), inside("", stay),
		inside("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;", stay),
		inside("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ", stay),
		inside("GET / HTTP/1.1\r\nHost: x\r\n\r\n", stay), inside("\r\n\r\n", stay), inside("x", stay),
	}
	for _, leave := range leavings() {
		all = append(all, say(hello, leave), say("", leave), say(get, leave), inside(get, leave), inside(get[:20], leave), inside("", leave))
	}
	return all
}

// Whoever stands in the door, and however many come and go while the limits change, the
// count of them is right in the end, there is room again, and a server that is to end
// does so in its time.
func TestAttackDoors(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	c := e.config()
	cert, pool := certificate(t)
	c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	c.MaxConnections = 8
	c.HeaderTimeout, c.IdleTimeout, c.MaxBodyTime = 2*time.Second, 2*time.Second, 2*time.Second
	p := start(t, c)
	many := doors(t, p, pool)
	var crowd sync.WaitGroup
	for worker := range 8 {
		crowd.Go(func() {
			for i := range 40 {
				conn, err := net.Dial("tcp", p.addr)
				if err != nil {
					t.Error(err)
					return
				}
				_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
				t.Cleanup(func() { conn.Close() })
				many[(worker+i*8)%len(many)](conn)
				if worker == 0 {
					c := c
					c.MaxConnections = i % 3 * 4
					if err := p.Reload(c); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	crowd.Wait()
	eventually(t, "all have ended", func() bool {
		p.conns.mu.Lock()
		defer p.conns.mu.Unlock()
		return p.conns.count == 0 && p.conns.extra == 0 && gauge(t, p.metrics.connections) == 0 && gauge(t, p.metrics.inFlight) == 0
	})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	res, err := client.Get("https://" + p.addr + "/")
	if err != nil || res.StatusCode != http.StatusForbidden {
		t.Fatalf("afterwards: %+v, %v", res, err)
	}
	res.Body.Close()
	for _, stand := range many {
		stand(p.dial(t).Conn)
	}
	begun := time.Now()
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if d := time.Since(begun); d > 20*time.Second {
		t.Errorf("it took %v to end", d)
	}
}
