package lane

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// scripted is a server that gives each request the next answer, as it stands; an
// empty one hangs up.
type scripted struct {
	net.Listener

	conns    atomic.Int32
	requests chan string // the heads
}

func script(t *testing.T, answers ...string) *scripted {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{Listener: ln, requests: make(chan string, 100)}
	next := make(chan string, len(answers))
	for _, a := range answers {
		next <- a
	}
	close(next)
	done := make(chan struct{})
	t.Cleanup(func() { ln.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			t.Cleanup(func() { conn.Close() })
			go s.serve(conn, next)
		}
	}()
	return s
}

func (s *scripted) serve(conn net.Conn, next <-chan string) {
	r := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(req.Body)
		s.requests <- fmt.Sprint(req.Method, " ", req.RequestURI, " ", req.Host, " ", string(body))
		answer, ok := <-next
		if !ok {
			return // it stays open, and silent
		}
		text, hangUp := strings.CutSuffix(answer, "HANG UP")
		_, _ = io.WriteString(conn, text)
		if hangUp {
			conn.Close()
			return
		}
	}
}

func (s *scripted) pool(t *testing.T) *Pool {
	t.Helper()
	p := New(Config{Addr: s.Addr().String(), Dial: new(net.Dialer).DialContext, IdleTimeout: time.Minute, MaxIdle: 2})
	t.Cleanup(p.CloseIdle)
	return p
}

func request(ctx context.Context, method string) *http.Request {
	r := &http.Request{Method: method, Host: "store", URL: &url.URL{Path: "/b/k"}, Header: http.Header{"X-A": {"1"}}}
	return r.WithContext(ctx)
}

func ask(t *testing.T, p *Pool, method string, body []byte) (string, error) {
	t.Helper()
	res, err := p.Do(request(t.Context(), method), body)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return fmt.Sprint(res.StatusCode, " ", string(data)), err
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// secured starts a server with TLS. It returns a pool of connections to it, and how
// many it has had.
func secured(t *testing.T, server *httptest.Server) (*Pool, *atomic.Int32) {
	t.Helper()
	conns := new(atomic.Int32)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName, config.NextProtos = "example.com", []string{"http/1.1"}
	p := New(Config{
		Addr: server.Listener.Addr().String(), TLS: config, Dial: new(net.Dialer).DialContext, HandshakeTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxIdle: 1,
	})
	t.Cleanup(p.CloseIdle)
	return p, conns
}
