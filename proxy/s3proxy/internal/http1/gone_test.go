package http1

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A handler that waits learns that its client has gone, whatever the client has sent, and
// is not told so of one that stays.
func TestGone(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(c *client){
		"hung up":      func(c *client) { c.Close() },
		"half":         func(c *client) { closeWrite(t, underTLS(c.Conn)) },
		"reset":        func(c *client) { _ = underTLS(c.Conn).(*net.TCPConn).SetLinger(0); underTLS(c.Conn).Close() },
		"without word": func(c *client) { underTLS(c.Conn).Close() },
	} {
		for _, secure := range []bool{false, true} {
			for what, more := range map[string]string{"nothing": "", "pipelined": get, "much": strings.Repeat(get, 1000)} {
				title := name + ", " + what + " unread"
				if secure {
					title += ", TLS"
				}
				t.Run(title, func(t *testing.T) {
					t.Parallel()
					started, ended := make(chan struct{}), make(chan error, 1)
					_, dial := startEither(t, patient(func(_ *Response, r *http.Request) {
						if more == "" {
							select {
							case <-r.Context().Done():
								t.Error("it is told before its client has gone")
							case <-time.After(3 * watchEvery): // it was looked at twice
							}
						}
						close(started)
						select {
						case <-r.Context().Done():
							ended <- r.Context().Err()
						case <-time.After(limit):
							ended <- nil
						}
						panic(http.ErrAbortHandler)
					}), secure)
					c := dial()
					c.send(get + more)
					within(t, "it is not handled", started)
					leave(c)
					if within(t, "it waits", ended) == nil {
						t.Error("it is not told that its client has gone")
					}
				})
			}
		}
	}
}

// startEither starts a server, with TLS or without.
func startEither(t *testing.T, c Config, secure bool) (s *running, dial func() *client) {
	t.Helper()
	if !secure {
		s = start(t, c)
		return s, func() *client { return s.dial(t) }
	}
	server, trust := certified(t)
	s = startOn(t, c, tls.NewListener(listen(t), server))
	return s, func() *client {
		conn, err := tls.Dial("tcp", s.addr, trust)
		if err != nil {
			t.Fatal(err)
		}
		return newClient(t, conn)
	}
}

// The context of a request ends with it.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	contexts := make(chan context.Context, 2)
	s := start(t, patient(func(_ *Response, r *http.Request) { contexts <- r.Context() }))
	c := s.dial(t)
	for range 2 {
		c.send(get)
		c.reply(http.MethodGet)
		within(t, "its context goes on", within(t, "it was not handled", contexts).Done())
	}
}

// That of a connection ends with it, or Serve's would keep it.
func TestConnectionEnds(t *testing.T) {
	t.Parallel()
	contexts := make(chan context.Context, 1)
	s := start(t, patient(func(w *Response, _ *http.Request) { contexts <- w.conn.ctx }))
	c := s.dial(t)
	c.send(get)
	c.reply(http.MethodGet)
	c.Close()
	within(t, "its context goes on", within(t, "it was not handled", contexts).Done())
	until(t, "it is kept", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 0
	})
}

// logged is what was.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A handler that panics breaks the connection off, without an answer.
func TestPanic(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		value  any
		logged bool
	}{"abort": {http.ErrAbortHandler, false}, "text": {"the reason", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := new(logged)
			config := patient(nil)
			config.Log = slog.New(slog.NewTextHandler(log, nil))
			contexts, closed := make(chan context.Context, 1), make(chan struct{})
			config.Open = func(net.Conn) Client {
				return Client{SendTimeout: time.Minute, Closed: func() { close(closed) }, Handler: func(w *Response, r *http.Request) {
					contexts <- r.Context()
					w.WriteHeader(http.StatusOK)
					_, _ = w.Write([]byte("held"))
					panicsWith(row.value)
				}}
			}
			c := start(t, config).dial(t)
			c.send(get + get)
			if got := c.rest(); got != "" {
				t.Errorf("it is answered %q", got)
			}
			within(t, "its context goes on", within(t, "it was not handled", contexts).Done())
			within(t, "it is still open", closed)
			text := log.String()
			if row.logged != strings.Contains(text, "the reason") || row.logged != strings.Contains(text, "panicsWith") || !row.logged && text != "" {
				t.Errorf("logged: %s", text)
			}
		})
	}
}

func panicsWith(v any) { panic(v) }
