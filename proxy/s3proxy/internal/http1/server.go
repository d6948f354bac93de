package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Config says how connections are served.
type Config struct {
	// Open is called for each connection. It says how it is served.
	Open func(net.Conn) Client
	// HeaderTimeout is how long the head of a request may take, a handshake of TLS
	// too; IdleTimeout how long a connection may have no request, or up to a 64th less.
	HeaderTimeout, IdleTimeout time.Duration
	// MaxHeader is the size in bytes that a head may have; one that is longer by a few
	// KiB may pass.
	MaxHeader int
	// Log is told what nobody else is.
	Log *slog.Logger
}

// Client is how a connection is served.
type Client struct {
	// Handler answers a request. The request's context ends when it returns, or the
	// client has gone. A panic breaks the connection off; one that is not
	// http.ErrAbortHandler is logged.
	Handler func(w *Response, r *http.Request)
	// SendTimeout is how long what the handler leaves to be sent may take.
	SendTimeout time.Duration
	// Closed is called when the connection was closed.
	Closed func()
}

// Server serves the connections of one listener.
type Server struct {
	config   Config
	draining atomic.Bool

	mu    sync.Mutex
	conns map[*conn]struct{}
	ln    net.Listener
	cut   bool
}

// New returns a server.
func New(c Config) *Server { return &Server{config: c, conns: make(map[*conn]struct{})} }

// Keys of log lines.
const (
	keyError  = "error"
	keyClient = "client"
	keyStack  = "stack"
)

// Serve takes connections from ln, which it closes, and returns when all of them have
// ended: with nil after Shutdown or when ctx ends, which cuts them, else with ln's
// error, after it has cut them.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	defer ln.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, s.close)()
	s.mu.Lock()
	s.ln = ln
	s.mu.Unlock()

	var all, watching sync.WaitGroup
	done := make(chan struct{})
	watching.Go(func() { s.watch(done) })
	err := s.accept(ctx, ln, &all)
	if err != nil {
		cancel()
	}
	all.Wait()
	close(done)
	watching.Wait()
	return err
}

// accept takes connections until there are no more to come.
func (s *Server) accept(ctx context.Context, ln net.Listener, all *sync.WaitGroup) error {
	for wait := minWait; !s.draining.Load() && ctx.Err() == nil; {
		socket, err := ln.Accept()
		if err == nil {
			wait = minWait
			if c := s.open(ctx, socket); c != nil {
				all.Go(c.serve)
			}
			continue
		}
		if s.draining.Load() || ctx.Err() != nil {
			return nil //nolint:nilerr // it was closed for that
		}
		if temporary := net.Error(nil); !errors.As(err, &temporary) || !temporary.Temporary() { //nolint:staticcheck // there is no other way to tell that files are short
			return err
		}
		s.config.Log.Error("accept failed, trying again", keyError, err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, maxWait)
	}
	return nil
}

// How long after a failure Accept is called again.
const (
	minWait = 5 * time.Millisecond
	maxWait = time.Second
)

// open registers a connection; nil: it has come too late, and is closed.
func (s *Server) open(ctx context.Context, socket net.Conn) *conn {
	c := newConn(ctx, s, socket)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut || s.draining.Load() {
		c.cancel()
		socket.Close()
		return nil
	}
	c.client = s.config.Open(socket)
	s.conns[c] = struct{}{}
	return c
}

func (s *Server) left(c *conn) {
	c.Close()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	c.client.Closed()
}

// close cuts all connections.
func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
	if s.ln != nil {
		s.ln.Close()
	}
	for c := range s.conns {
		c.socket.Close()
	}
}

// newGrace is how long a connection is waited for on which nothing was asked yet.
const newGrace = 5 * time.Second

// Shutdown has Serve take no more connections, and end each when it has no request.
// One on which nothing was ever asked has 5 s from when it came. It does not wait.
func (s *Server) Shutdown() {
	s.draining.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ln != nil {
		s.ln.Close()
	}
	for c := range s.conns {
		c.endIdle(stateIdle)
		time.AfterFunc(time.Until(c.since.Add(newGrace)), func() { c.endIdle(stateNew) })
	}
}

// watchEvery is how often it is looked for clients that have gone.
const watchEvery = 250 * time.Millisecond

// watch ends the contexts of requests whose clients have gone, until done. It looks at
// those that it has seen before, for most requests are short.
func (s *Server) watch(done <-chan struct{}) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		for c := range s.conns {
			c.watch()
		}
		s.mu.Unlock()
	}
}

// underTLS is the socket of a connection.
func underTLS(c net.Conn) net.Conn {
	if secure, ok := c.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return c
}
