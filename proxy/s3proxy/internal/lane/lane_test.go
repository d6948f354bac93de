package lane

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
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

// One connection serves one request after the other, whatever their answers are like.
func TestReuse(t *testing.T) {
	t.Parallel()
	answers := []string{
		ok,
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok,
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 5\r\n\r\n<xml>",
		ok,
	}
	s := script(t, answers...)
	p := s.pool(t)
	for i, want := range []string{"200 ok", "204 ", "200 ok", "200 ok", "304 ", "200 ", "412 <xml>", "200 ok"} {
		got, err := ask(t, p, http.MethodPut, fmt.Append(nil, i))
		if err != nil || got != want {
			t.Errorf("answer %d: %q, %v; want %q", i, got, err, want)
		}
		if head, want := <-s.requests, fmt.Sprint("PUT /b/k store ", i); head != want {
			t.Errorf("request %d: %q, want %q", i, head, want)
		}
	}
	if n := s.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A connection is not used again if the server says so, if there is more on it than
// was asked for, if the answer was not read to its end, or has none.
func TestNoReuse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		read   int64
	}{
		"close":       {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 2},
		"HTTP/1.0":    {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 2},
		"to its end":  {"HTTP/1.1 200 OK\r\n\r\nokHANG UP", 2},
		"more":        {ok + "HTTP/1.1 200 OK\r\n", 2},
		"half read":   {ok, 1},
		"hung up":     {ok + "HANG UP", 2},
		"chunks left": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := script(t, c.answer, ok)
			p := s.pool(t)
			res, err := p.Do(request(t.Context(), http.MethodGet), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, res.Body, c.read); err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if got, err := ask(t, p, http.MethodPut, nil); err != nil || got != "200 ok" {
				t.Fatalf("%q, %v", got, err)
			}
			if n := s.conns.Load(); n != 2 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// An answer that breaks off is an error, and never the end of its body.
func TestBreaksOff(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"HANG UP", "HTTP/1.1 200 HANG UP", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nokHANG UP",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokHANG UP", "nonsense\r\n\r\nHANG UP",
		"HTTP/1.1 101 Switching Protocols\r\n\r\nHANG UP", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 9),
	} {
		s := script(t, answer)
		if got, err := ask(t, s.pool(t), http.MethodPut, nil); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%q: %q, %v", answer, got, err)
		}
	}
}

// A read whose idle connection breaks without a word is asked again; a write, or a
// read on a new connection, never.
func TestAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method string
		answer string
		asked  int
		fails  bool
	}{
		"read":                {http.MethodGet, "HANG UP", 3, false},
		"write":               {http.MethodPut, "HANG UP", 2, true},
		"read of half a head": {http.MethodGet, "HTTP/1.1 20HANG UP", 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := script(t, ok, c.answer, ok)
			p := s.pool(t)
			if _, err := ask(t, p, http.MethodGet, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := ask(t, p, c.method, nil); (err != nil) != c.fails {
				t.Error(err)
			}
			if n := len(s.requests); n != c.asked {
				t.Errorf("%d requests", n)
			}
		})
	}
	s := script(t, "HANG UP", ok)
	if _, err := ask(t, s.pool(t), http.MethodGet, nil); err == nil {
		t.Error("a new connection was not enough, and another was")
	}
}

// The context ends whatever waits: for the head, or for the body.
func TestContext(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"} {
		s := script(t, answer)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-s.requests; cancel() }()
		res, err := s.pool(t).Do(request(ctx, http.MethodGet), nil)
		if err == nil {
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("%q: %v", answer, err)
		}
		if err == nil {
			t.Errorf("%q: no error", answer)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := script(t, ok)
	if _, err := s.pool(t).Do(request(ctx, http.MethodGet), nil); err == nil || len(s.requests) > 0 {
		t.Errorf("%v, %d requests", err, len(s.requests))
	}
}

// A server that does not begin to answer in time is given up; one that has begun is
// not.
func TestResponseTimeout(t *testing.T) {
	t.Parallel()
	s := script(t)
	p := s.pool(t)
	p.config.ResponseTimeout = 20 * time.Millisecond
	if _, err := ask(t, p, http.MethodGet, nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(2100 * time.Millisecond):
		case <-t.Context().Done():
		}
		_, _ = io.WriteString(w, "late")
	}))
	t.Cleanup(server.Close)
	p = New(Config{
		Addr: server.Listener.Addr().String(), Dial: new(net.Dialer).DialContext, IdleTimeout: time.Minute, MaxIdle: 1,
		ResponseTimeout: 2 * time.Second,
	})
	t.Cleanup(p.CloseIdle)
	if got, err := ask(t, p, http.MethodGet, nil); err != nil || got != "200 late" {
		t.Errorf("%q, %v", got, err)
	}
}

// The trace is told of the connection that a request asks for, and of the one that it
// gets, before anything is sent.
func TestTrace(t *testing.T) {
	t.Parallel()
	s := script(t, ok)
	var asked, got int
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { asked++ },
		GotConn: func(httptrace.GotConnInfo) {
			if got++; len(s.requests) > 0 {
				t.Error("it was sent before")
			}
		},
	})
	res, err := s.pool(t).Do(request(ctx, http.MethodGet), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	s.Close()
	p := s.pool(t)
	_, err = p.Do(request(ctx, http.MethodGet), nil)
	unreached := (*net.OpError)(nil)
	if !errors.As(err, &unreached) || unreached.Op != "dial" || asked != 2 || got != 1 {
		t.Errorf("%v; asked %d, got %d", err, asked, got)
	}
}

// Nothing leaves that would be two requests, or too long for a buffer.
func TestRefuses(t *testing.T) {
	t.Parallel()
	s := script(t, ok)
	p := s.pool(t)
	for name, value := range map[string]string{"X-A": "1\r\nX-B: 2", "X A": "1", "X-A\r\n": "1"} {
		r := request(t.Context(), http.MethodGet)
		r.Header = http.Header{name: {value}}
		if _, err := p.Do(r, nil); err == nil {
			t.Errorf("%q: %q was sent", name, value)
		}
	}
	if _, err := ask(t, p, http.MethodPut, make([]byte, MaxBody+1)); err == nil {
		t.Error("a long body was sent")
	}
	if s.conns.Load() != 0 {
		t.Error("there is a connection")
	}
}

// What is idle is bounded, and closed in time.
func TestIdle(t *testing.T) {
	t.Parallel()
	s := script(t, ok, ok, ok, ok)
	p := s.pool(t)
	var open []*http.Response
	for range 3 {
		res, err := p.Do(request(t.Context(), http.MethodGet), nil)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, res)
	}
	for _, res := range open {
		_, _ = io.ReadAll(res.Body)
		res.Body.Close()
	}
	if n := len(p.idle); n != 2 {
		t.Errorf("%d are idle", n)
	}
	p.mu.Lock()
	p.config.IdleTimeout = time.Nanosecond
	p.mu.Unlock()
	p.sweep()
	if n := len(p.idle); n != 0 {
		t.Errorf("%d are idle after their time", n)
	}
	if got, err := ask(t, p, http.MethodGet, nil); err != nil || got != "200 ok" {
		t.Errorf("%q, %v", got, err)
	}
}

// Over TLS it is the same; what is read directly is not.
func TestTLS(t *testing.T) {
	t.Parallel()
	var conns atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
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
	for range 3 {
		res, err := p.Do(request(t.Context(), http.MethodGet), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.(*Body).Direct(1) != nil {
			t.Error("TLS is read past")
		}
		if data, err := io.ReadAll(res.Body); err != nil || string(data) != "ok" {
			t.Errorf("%q, %v", data, err)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	other := New(Config{
		Addr: server.Listener.Addr().String(), TLS: &tls.Config{ServerName: "example.com", MinVersion: tls.VersionTLS12}, Dial: new(net.Dialer).DialContext,
		HandshakeTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxIdle: 1,
	})
	unreached := (*net.OpError)(nil)
	if _, err := ask(t, other, http.MethodGet, nil); !errors.As(err, &unreached) || unreached.Op != "dial" {
		t.Errorf("an unknown authority: %v", err)
	}
}

// What is read directly is what was not in the buffer, and counts.
func TestDirect(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789abcdef", 64<<10/16)
	s := script(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text), ok)
	p := s.pool(t)
	res, err := p.Do(request(t.Context(), http.MethodGet), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := res.Body.(*Body)
	var got strings.Builder
	direct := false
	for {
		from := b.Direct(10_000)
		if from == nil {
			p := make([]byte, 100)
			n, err := b.Read(p)
			got.Write(p[:n])
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		direct = true
		n, err := io.Copy(&got, from)
		if err := b.Took(n, err); err != nil {
			t.Fatal(err)
		}
	}
	if got.String() != text || !direct {
		t.Errorf("%d bytes of %d, directly: %v", got.Len(), len(text), direct)
	}
	if _, err := ask(t, p, http.MethodGet, nil); err != nil || s.conns.Load() != 1 {
		t.Errorf("%v, %d connections", err, s.conns.Load())
	}
}

// Whoever closes a body ends a Read of it that waits, as net/http's transport may
// still be at; and nobody else gets its connection.
func TestCloseWhileReading(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
	} {
		s := script(t, answer, ok)
		p := s.pool(t)
		res, err := p.Do(request(t.Context(), http.MethodGet), nil)
		if err != nil {
			t.Fatal(err)
		}
		read, failed := make(chan struct{}), make(chan error)
		go func() {
			_, _ = io.ReadFull(res.Body, make([]byte, 2))
			close(read)
			_, err := res.Body.Read(make([]byte, 1))
			failed <- err
		}()
		<-read
		res.Body.Close()
		if err := <-failed; err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%q: %v", answer, err)
		}
		if got, err := ask(t, p, http.MethodPut, nil); err != nil || got != "200 ok" || s.conns.Load() != 2 {
			t.Errorf("%q, %v, %d connections", got, err, s.conns.Load())
		}
	}
}
