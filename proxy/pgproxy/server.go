package pgproxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/handshake"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay"
)

// Keys of log lines.
const (
	keyClient   = "client"
	keyError    = "error"
	keySessions = "sessions"
)

const (
	maxAcceptBackoff = time.Second
	progressInterval = 5 * time.Second // of Shutdown's log lines
)

// errDraining is the answer of a server that shuts down.
var errDraining = errors.New("the proxy is shutting down")

// Server serves clients of one Postgres server. Make it with New.
type Server struct {
	config  atomic.Pointer[settings]
	log     *slog.Logger
	metrics *Metrics

	relay *relay.Relay

	opening  limit        // handshakes
	admitted limit        // of those that MaxConnections counts
	live     atomic.Int64 // sessions

	// session relays what follows the handshake; tests have others.
	session func(ctx context.Context, l *handshake.Login, c *relay.Config, drain <-chan struct{}) error

	drain      context.Context // ends when Shutdown begins
	startDrain context.CancelCauseFunc
	hard       context.Context // ends when Shutdown waits no more
	stop       context.CancelFunc

	mu     sync.Mutex
	serves map[*serving]struct{}
}

// serving is a call of Serve.
type serving struct {
	ln   net.Listener
	done chan struct{}
}

// New returns a server for c, or says what is wrong with it. The server is not
// asked for, and need not run yet.
func New(c Config) (*Server, error) {
	config, err := c.complete()
	if err != nil {
		return nil, err
	}
	s := &Server{log: config.Logger, metrics: config.Metrics, relay: relay.New(), serves: make(map[*serving]struct{})}
	s.config.Store(config)
	s.session = s.serve
	s.drain, s.startDrain = context.WithCancelCause(context.Background())
	s.hard, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Reload makes c the configuration of clients that connect from now on; those
// that are connected keep theirs, but for MaxConnections, which counts all. The
// upstream's address must be the same, since cancel requests go there; Logger
// and Metrics stay what they were. With an error nothing has changed.
func (s *Server) Reload(c Config) error {
	c.Logger, c.Metrics = s.log, s.metrics
	config, err := c.complete()
	if err != nil {
		return err
	}
	if was := s.config.Load().Upstream.Address; config.Upstream.Address != was {
		return fmt.Errorf("pgproxy: reload: the upstream's address cannot change from %s to %s", was, config.Upstream.Address)
	}
	s.config.Store(config)
	return nil
}

// Serve takes clients from ln, which it closes, and returns when all that it
// started has ended: with nil after Shutdown, or after ctx has ended, which cuts
// every session; else with the error of ln, after all have been cut. It may be
// called for several listeners at once, and no more once Shutdown has begun.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	defer ln.Close()
	call := &serving{ln: ln, done: make(chan struct{})}
	if !s.enter(call) {
		return errDraining
	}
	defer s.leave(call)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.hard, cancel)()
	defer context.AfterFunc(ctx, func() { ln.Close() })()

	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		conn, err := s.accept(ctx, ln)
		if err != nil {
			if ctx.Err() != nil || s.drain.Err() != nil {
				return nil // the listener was closed for that
			}
			cancel()
			return err
		}
		clients.Go(func() { s.handle(ctx, conn) })
	}
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
	defer s.mu.Unlock()
	delete(s.serves, call)
	close(call.done)
}

// accept takes the next client. When there are no file descriptors left, it
// waits for some, longer and longer.
func (s *Server) accept(ctx context.Context, ln net.Listener) (net.Conn, error) {
	for backoff := 5 * time.Millisecond; ; backoff = min(2*backoff, maxAcceptBackoff) {
		conn, err := ln.Accept()
		if err == nil || !socket.IsTemporary(err) {
			return conn, err
		}
		s.log.Warn("cannot accept a client", keyError, err)
		select {
		case <-ctx.Done():
		case <-s.drain.Done():
		case <-time.After(backoff):
		}
	}
}

// handle serves one client, from its first byte to its end.
func (s *Server) handle(ctx context.Context, conn net.Conn) {
	config := s.config.Load()
	config.handshake.Socket.Set(conn)
	counted := false
	enter := func() bool {
		counted = s.admitted.take(config.MaxConnections)
		return counted
	}
	h := handshake.New(ctx, &config.handshake, conn, enter, s.log.With(keyClient, socket.Peer(conn)))
	l := s.shake(ctx, h, config)
	if counted {
		defer s.admitted.give()
	}
	if l == nil {
		return
	}
	s.metrics.sessionsTotal.Inc()
	s.metrics.sessions.Inc()
	s.live.Add(1)
	defer s.live.Add(-1)
	defer s.metrics.sessions.Dec()
	l.Log.Debug("session begins")
	err := s.session(ctx, l, &config.relay, s.drain.Done())
	l.Log.Debug("session ends", keyError, err)
}

// shake does the handshake; if nothing comes of it, the client has been told and
// there is no login.
func (s *Server) shake(ctx context.Context, h *handshake.Handshake, config *settings) *handshake.Login {
	if !s.opening.take(mostOpening(config.MaxConnections)) {
		h.TurnAway()
		return nil
	}
	l, err := h.Run(ctx, s.drain)
	s.opening.give() // to be told why takes no room
	if err != nil {
		h.End(err)
		return nil
	}
	return l
}

// serve is the session of a client that has logged in.
func (s *Server) serve(ctx context.Context, l *handshake.Login, c *relay.Config, drain <-chan struct{}) error {
	return s.relay.Serve(ctx, &relay.Link{
		Client: l.Client, Server: l.Server, Database: l.Database, Replication: l.Replication, Config: c, Log: l.Log,
	}, drain)
}
