package s3proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1"
)

// maxHeader is the size in bytes that the header of a request may have; more is
// answered 431. S3's own limit is lower, but a token may stand for many resources.
const maxHeader = 64 << 10

// errDraining is the answer of a server that shuts down.
var errDraining = errors.New("s3proxy: the proxy is shutting down")

// Server serves clients of one store. Make it with New.
type Server struct {
	config  atomic.Pointer[settings]
	log     *slog.Logger
	metrics *Metrics
	conns   connections
	live    atomic.Int64 // requests

	drain      context.Context // ends when Shutdown begins
	startDrain context.CancelCauseFunc
	hard       context.Context // ends when Shutdown waits no more
	stop       context.CancelFunc

	reloading sync.Mutex
	coverTime time.Duration

	mu     sync.Mutex
	serves map[*serving]struct{}
}

// settings is a Config that is in force, with what was made of it.
type settings struct {
	Config

	tls       *tls.Config     // nil: none
	transport *http.Transport // to the store
	gateway   *gateway.Gateway
}

// serving is a call of Serve.
type serving struct {
	http *http1.Server
	done chan struct{}
}

// New returns a server for c, or says what is wrong with it. The store is not
// asked for, and need not run yet.
func New(c Config) (*Server, error) {
	set, err := newSettings(c, nil)
	if err != nil {
		return nil, err
	}
	s := &Server{log: set.Logger, metrics: set.Metrics, coverTime: coverTime, serves: make(map[*serving]struct{})}
	s.config.Store(set)
	s.drain, s.startDrain = context.WithCancelCause(context.Background())
	s.hard, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// newSettings are those of c, after those that were in force, if any were.
func newSettings(c Config, was *settings) (*settings, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	set, open := &settings{Config: c}, gateway.New
	if was != nil {
		open = was.gateway.Successor
	}
	if was != nil && c.Upstream.same(&was.Upstream) {
		set.transport = was.transport
	} else {
		set.transport = newTransport(c.Upstream.TLS, c.Upstream.ResponseTimeout)
	}
	if set.gateway, err = open(c.gateway(set.transport)); err != nil {
		return nil, fmt.Errorf("s3proxy: %w", err)
	}
	if c.TLS != nil {
		set.tls = c.TLS.Clone()
		set.tls.NextProtos = []string{"http/1.1"}
		set.tls.MinVersion = max(set.tls.MinVersion, tls.VersionTLS12)
	}
	return set, nil
}

// Reload makes c the configuration of requests, and its TLS that of connections,
// that begin from now on; those that have begun keep theirs. HeaderTimeout and
// IdleTimeout must be the same; Logger and Metrics stay what they were. With an
// error nothing has changed. What is remembered of a bucket, and what its clients have seen
// in it, is kept if c says the same of it and of the store.
//
// Where c fences what was not, no more is written there without a token, and what is being
// written is waited for, 30 s at most; then it is cut. Until then the old configuration
// stays in force, but that those who would write there get 503 SlowDown.
func (s *Server) Reload(c Config) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	c.Logger, c.Metrics = s.log, s.metrics
	was := s.config.Load()
	set, err := newSettings(c, was)
	if err != nil {
		return err
	}
	if set.HeaderTimeout != was.HeaderTimeout || set.IdleTimeout != was.IdleTimeout {
		return errors.New("s3proxy: reload: HeaderTimeout and IdleTimeout cannot change")
	}
	s.cover(set.gateway.Cover())
	s.config.Store(set)
	was.gateway.Yield(set.gateway)
	return nil
}

// Serve takes clients from ln, which it closes, and returns when all that it
// started has ended: with nil after Shutdown, or after ctx has ended, which cuts
// every request; else with the error of ln, after all have been cut. It may be
// called for several listeners at once, and no more once Shutdown has begun.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	defer ln.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.hard, cancel)()

	config := s.config.Load()
	call := &serving{done: make(chan struct{}), http: http1.New(http1.Config{
		Open:          s.connected,
		HeaderTimeout: config.HeaderTimeout,
		IdleTimeout:   config.IdleTimeout,
		MaxHeader:     maxHeader,
		Log:           s.log,
	})}
	if !s.enter(call) {
		return errDraining
	}
	defer s.leave(call)
	return call.http.Serve(ctx, &listener{ln, s})
}

// handle serves one request.
func (s *Server) handle(w *http1.Response, r *http.Request) {
	s.live.Add(1)
	defer s.live.Add(-1)
	s.config.Load().gateway.Serve(w, r)
}

// enter registers a call of Serve, unless Shutdown came first.
func (s *Server) enter(call *serving) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drain.Err() != nil {
		return false
	}
	s.serves[call] = struct{}{}
	return true
}

func (s *Server) leave(call *serving) {
	s.mu.Lock()
	delete(s.serves, call)
	last := len(s.serves) == 0
	s.mu.Unlock()
	if last {
		s.config.Load().gateway.Rest()
	}
	close(call.done)
}

// calls are the calls of Serve that have not returned.
func (s *Server) calls() []*serving {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := make([]*serving, 0, len(s.serves))
	for call := range s.serves {
		calls = append(calls, call)
	}
	return calls
}
