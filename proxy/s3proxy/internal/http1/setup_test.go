package http1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// limit is how long a test waits for what must come.
const limit = 30 * time.Second

// patient is the configuration of a server with patience.
func patient(handle func(w *Response, r *http.Request)) Config {
	return Config{
		Open: func(net.Conn) Client {
			return Client{Handler: handle, SendTimeout: time.Minute, Closed: func() {}}
		},
		HeaderTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeader: 64 << 10,
		Log: slog.New(slog.DiscardHandler),
	}
}

// running is a server.
type running struct {
	*Server

	addr string
	cut  context.CancelFunc
	done chan error // of Serve
}

// listen is a listener on loopback.
func listen(tb testing.TB) net.Listener {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return ln
}

// start serves until the test ends.
func start(tb testing.TB, c Config) *running {
	tb.Helper()
	return startOn(tb, c, listen(tb))
}

func startOn(tb testing.TB, c Config, ln net.Listener) *running {
	tb.Helper()
	s := &running{Server: New(c), addr: ln.Addr().String(), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	s.cut = cancel
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.done <- s.Serve(ctx, ln)
	}()
	tb.Cleanup(func() {
		cancel()
		<-ended
	})
	return s
}

// ended waits for Serve to return.
func (s *running) ended(tb testing.TB) error {
	tb.Helper()
	select {
	case err := <-s.done:
		return err
	case <-time.After(limit):
		tb.Fatal("Serve does not return")
		return nil
	}
}

// client is one end of a connection.
type client struct {
	net.Conn

	tb testing.TB
	r  *bufio.Reader
}

// dial connects to a server until the test ends.
func (s *running) dial(tb testing.TB) *client {
	tb.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		tb.Fatal(err)
	}
	return newClient(tb, conn)
}

func newClient(tb testing.TB, conn net.Conn) *client {
	tb.Helper()
	tb.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(limit))
	return &client{conn, tb, bufio.NewReader(conn)}
}

// send sends what the server must take.
func (c *client) send(text string) {
	c.tb.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.tb.Fatal(err)
	}
}

// goOn waits for leave to send text, and sends it.
func (c *client) goOn(text string) {
	c.tb.Helper()
	const leave = "HTTP/1.1 100 Continue\r\n\r\n"
	got := make([]byte, len(leave))
	if _, err := io.ReadFull(c.r, got); err != nil || string(got) != leave {
		c.tb.Fatalf("%q, %v", got, err)
	}
	c.send(text)
}

// reply reads an answer to a request of a method.
func (c *client) reply(method string) (res *http.Response, body string) {
	c.tb.Helper()
	res, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.tb.Fatal(err)
	}
	data, err := io.ReadAll(res.Body)
	if err != nil {
		c.tb.Fatalf("%q: %v", data, err)
	}
	return res, string(data)
}

// rest is what comes until the connection ends, as it must.
func (c *client) rest() string {
	c.tb.Helper()
	data, err := io.ReadAll(c.r)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.tb.Fatalf("the connection is still open, behind %q", data)
	}
	return string(data)
}

// within waits for something to be told.
func within[T any](tb testing.TB, what string, c <-chan T) T {
	tb.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(limit):
		tb.Fatal(what)
		panic("unreachable")
	}
}

// closeWrite hangs up half: nothing more will be sent.
func closeWrite(tb testing.TB, conn net.Conn) {
	tb.Helper()
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		tb.Fatal(err)
	}
}

// until waits for what comes to be so.
func until(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	over := time.After(limit)
	for tick := time.NewTicker(time.Millisecond); !is(); {
		select {
		case <-tick.C:
		case <-over:
			tb.Fatal(what)
		}
	}
}
