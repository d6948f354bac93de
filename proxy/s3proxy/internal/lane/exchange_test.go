package lane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

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
			for strings.HasSuffix(c.answer, "HANG UP") && len(p.idle) > 0 && p.idle[0].alive() {
				runtime.Gosched() // it is about to
			}
			if got, err := ask(t, p, http.MethodPut, nil); err != nil || got != "200 ok" {
				t.Fatalf("%q, %v", got, err)
			}
			if n := s.conns.Load(); n != 2 {
				t.Errorf("%d connections", n)
			}
		})
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

// Nor does a body wait for ever to go out, where it does not fit into the buffers of a
// socket after all: of a connection that is new, and whose other end is dead, they are
// small.
func TestBodyStuck(t *testing.T) {
	t.Parallel()
	dead := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
		})
		return errors.Join(err, failed)
	}}
	ln, err := dead.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	p := New(Config{
		Addr: ln.Addr().String(), ResponseTimeout: 100 * time.Millisecond,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil {
				err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
			}
			return c, err
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := p.Do(request(ctx, http.MethodPut), make([]byte, MaxBody)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
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
		for _, piece := range []string{"", "la", "te"} { // each in time, but not all of them
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(1100 * time.Millisecond):
			case <-t.Context().Done():
			}
		}
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
