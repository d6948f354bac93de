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

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/wire"
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

	mu     sync.Mutex
	serves map[*serving]struct{}
}

// settings is a Config that is in force, with what was made of it.
type settings struct {
	Config

	tls     *tls.Config // nil: none
	gateway *gateway.Gateway
}

// serving is a call of Serve.
type serving struct {
	http *http.Server
	done chan struct{}
}

// New returns a server for c, or says what is wrong with it. The store is not
// asked for, and need not run yet.
func New(c Config) (*Server, error) {
	set, err := newSettings(c)
	if err != nil {
		return nil, err
	}
	s := &Server{log: set.Logger, metrics: set.Metrics, serves: make(map[*serving]struct{})}
	s.config.Store(set)
	s.drain, s.startDrain = context.WithCancelCause(context.Background())
	s.hard, s.stop = context.WithCancel(context.Background())
	return s, nil
}

func newSettings(c Config) (*settings, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	set := &settings{Config: c}
	if set.gateway, err = gateway.New(c.gateway()); err != nil {
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
// error nothing has changed.
func (s *Server) Reload(c Config) error {
	c.Logger, c.Metrics = s.log, s.metrics
	set, err := newSettings(c)
	if err != nil {
		return err
	}
	if was := s.config.Load(); set.HeaderTimeout != was.HeaderTimeout || set.IdleTimeout != was.IdleTimeout {
		return errors.New("s3proxy: reload: HeaderTimeout and IdleTimeout cannot change")
	}
	s.config.Swap(set).gateway.Retire()
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

	var clients sync.WaitGroup
	call := &serving{http: s.newHTTP(ctx, &clients), done: make(chan struct{})}
	if !s.enter(call) {
		return errDraining
	}
	defer s.leave(call)
	defer context.AfterFunc(ctx, func() { call.http.Close() })()
	defer clients.Wait() // which the line above may have to cut short

	err := call.http.Serve(&listener{ln, s})
	if ctx.Err() != nil {
		return nil
	}
	if s.drain.Err() == nil {
		cancel()
		call.http.Close()
		return err
	}
	return nil // Shutdown closed the listener; what is being served ends by itself, or is cut
}

// newHTTP returns what serves the connections of one call of Serve, each of
// which is one of clients. HTTP/1.1 only, and no multiplexer, which would clean
// paths.
func (s *Server) newHTTP(ctx context.Context, clients *sync.WaitGroup) *http.Server {
	config := s.config.Load()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:                      http.HandlerFunc(s.handle),
		DisableGeneralOptionsHandler: true,
		Protocols:                    protocols,
		ReadHeaderTimeout:            config.HeaderTimeout,
		IdleTimeout:                  config.IdleTimeout,
		MaxHeaderBytes:               maxHeader,
		ErrorLog:                     errorLog(s.log),
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			clients.Add(1)
			return s.connected(ctx, conn)
		},
		ConnState: func(conn net.Conn, state http.ConnState) {
			switch state {
			case http.StateIdle: // an answer has ended
				if plain, ok := conn.(*wire.Conn); ok {
					plain.Idle()
				}
			case http.StateClosed:
				s.disconnected(conn)
				clients.Done()
			default:
			}
		},
	}
}

// handle serves one request.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if tooMany(r.Context()) {
		gateway.Busy(w, r)
		return
	}
	s.live.Add(1)
	defer s.live.Add(-1)
	s.config.Load().gateway.ServeHTTP(w, r)
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
