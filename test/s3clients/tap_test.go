package s3clients_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tap is a listener whose connections lead to a server, byte for byte and reset
// for reset, and that hears which requests pass. With TLS it ends that.
type tap struct {
	addr string
	// single asks for a connection for each request. Of a body in chunks versitygw
	// may take the end for the next request.
	single  bool
	running sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	requests []request
}

// request is one that has passed.
type request struct {
	method, path string // the path without the bucket, decoded
	query        url.Values
}

// String is the method, the key, and the sub-resource.
func (r request) String() string {
	for _, name := range []string{"uploads", "uploadId", "delete", "tagging", "location", "list-type"} {
		if r.query.Has(name) {
			return r.method + " " + r.path + "?" + name
		}
	}
	return r.method + " " + r.path
}

func newTap(t *testing.T, target string, c *tls.Config, single bool) *tap {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{addr: ln.Addr().String(), single: single, conns: map[net.Conn]bool{}}
	if c != nil {
		ln = tls.NewListener(ln, c)
	}
	p.running.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.pass(client, target) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		p.mu.Lock()
		for conn := range p.conns {
			conn.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

// pass moves bytes until both ends have closed.
func (p *tap) pass(client net.Conn, target string) {
	server, err := net.Dial("tcp", target)
	if err != nil {
		client.Close()
		return
	}
	p.keep(client, server)
	var wg sync.WaitGroup
	heard, copied := io.Pipe()
	wg.Go(func() { p.hear(heard) })
	wg.Go(func() {
		from := bufio.NewReader(io.TeeReader(client, copied))
		if p.single {
			askToClose(server, from)
		}
		_, err := io.Copy(server, from)
		copied.Close()
		end(server, err)
	})
	_, err = io.Copy(client, server)
	end(client, err)
	client.Close() // HTTP has no use for half a connection
	server.Close()
	wg.Wait()
	p.drop(client, server)
}

// askToClose passes the header of a request, and says that it is the last one.
func askToClose(to io.Writer, from *bufio.Reader) {
	for {
		line, err := from.ReadString('\n')
		last := line == "\r\n"
		if last {
			line = "Connection: close\r\n\r\n"
		}
		if _, failed := io.WriteString(to, line); last || err != nil || failed != nil {
			return
		}
	}
}

// end tells one side how the other one has ended.
func end(to net.Conn, err error) {
	if tcp, ok := to.(*net.TCPConn); ok && errors.Is(err, syscall.ECONNRESET) {
		_ = tcp.SetLinger(0)
		tcp.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// hear reads what a client says.
func (p *tap) hear(from io.Reader) {
	r := bufio.NewReader(from)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			_, _ = io.Copy(io.Discard, r)
			return
		}
		_, path, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
		p.mu.Lock()
		p.requests = append(p.requests, request{method: req.Method, path: path, query: req.URL.Query()})
		p.mu.Unlock()
		_, _ = io.Copy(io.Discard, req.Body)
	}
}

// heard are the requests so far, in the order in which they came.
func (p *tap) heard() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]request(nil), p.requests...)
}

// all are the requests of a client that has ended.
func (p *tap) all(t *testing.T) []request {
	t.Helper()
	open := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.conns)
	}
	deadline := time.After(time.Minute)
	for open() > 0 {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatal("a client has ended, but not its connections")
		}
	}
	return p.heard()
}

func (p *tap) keep(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
}

func (p *tap) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// told are requests as text, for a test to compare with. Some clients send
// several at once.
func told(requests []request) string {
	lines := make([]string, len(requests))
	for i, r := range requests {
		lines[i] = r.String() + "\n"
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
