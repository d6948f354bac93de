package s3proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Headers may be neither large nor slow.
func TestHeaders(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	c := e.config()
	c.HeaderTimeout = 2 * time.Second
	p := start(t, c)
	conn := p.dial(t)
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nA: %s\r\n\r\n", strings.Repeat("a", 128<<10)); err != nil {
		t.Fatal(err)
	}
	if status, _ := conn.answer(); status != 431 {
		t.Errorf("128 KiB: %d", status)
	}
	for _, text := range []string{"", "G", "GET / HTTP/1.1\r\nHost: x\r\n"} {
		conn := p.dial(t)
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		conn.ended()
	}
	for _, text := range []string{"\x16\x03\x01\x02\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /\r\n\r\n", "\x00\x00\x00\x00\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"} {
		conn := p.dial(t)
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		if line, _ := conn.in.ReadString('\n'); line != "" && !strings.HasPrefix(line, "HTTP/1.1 4") && !strings.HasPrefix(line, "HTTP/1.1 5") {
			t.Errorf("%q: %q", text, line)
		}
	}
	expect := p.app(t, token(33))
	put(t, expect, e.bucket, "k", "v")
}

// Idle connections cost little, keep nobody out, and end.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	c := e.config()
	c.IdleTimeout, c.HeaderTimeout = 2*time.Second, 2*time.Second
	p := start(t, c)
	const many = 1000
	for i := range many {
		conn := p.dial(t)
		if i%2 == 0 { // of the others nothing is ever heard
			conn.head(p, http.MethodGet, "/", 0, nil)
		}
	}
	put(t, p.app(t, token(33)), e.bucket, "k", "v")
	eventually(t, "all have ended", func() bool { return gauge(t, p.metrics.connections) <= 1 })
	expectValue(t, p.app(t, token(33)), e.bucket, "k", "v")
}

func TestMaxConnections(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	c := e.config()
	c.MaxConnections = 2
	p := start(t, c)
	first, second := p.dial(t), p.dial(t)
	for _, conn := range []*raw{first, second} {
		conn.head(p, http.MethodGet, "/", 0, nil)
		if status, code := conn.answer(); status != 200 {
			t.Fatalf("%d %s", status, code)
		}
	}
	third := p.dial(t)
	third.head(p, http.MethodGet, "/", 0, nil)
	if status, code := third.answer(); status != 503 || code != "SlowDown" {
		t.Errorf("the third: %d %s", status, code)
	}
	third.ended()
	first.Close()
	eventually(t, "there is room again", func() bool {
		conn := p.dial(t)
		conn.head(p, http.MethodGet, "/", 0, nil)
		status, _ := conn.answer()
		conn.Close()
		return status == 200
	})
	second.head(p, http.MethodGet, "/", 0, nil)
	if status, code := second.answer(); status != 200 {
		t.Errorf("the second, again: %d %s", status, code)
	}
	for range 3 * maxExtra { // they are closed, or told
		p.dial(t)
	}
	second.head(p, http.MethodGet, "/", 0, nil)
	if status, code := second.answer(); status != 200 {
		t.Errorf("the second, among many: %d %s", status, code)
	}
}
