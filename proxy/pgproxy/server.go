package pgproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/poll"
)

// Keys of log lines.
const (
	keyClient   = "client"
	keyUser     = "user"
	keyDatabase = "database"
	keyCause    = "cause"
	keyError    = "error"
	keyCode     = "code"
	keyReason   = "reason"
	keyMark     = "mark"
	keyResource = "resource"
	keyNumber   = "number"
	keyTook     = "took"
	keySessions = "sessions"
)

const (
	refuseTimeLimit  = 5 * time.Second // for a client to take its refusal
	maxAcceptBackoff = time.Second
	progressInterval = 5 * time.Second // of Shutdown's log lines
	// A core relays more than another one's worth of backends can answer, and the
	// fewer loops there are, the more each finds to do when it is woken.
	coresPerLoop = 2
)

// errDraining ends handshakes when the server shuts down.
var errDraining = errors.New("the proxy is shutting down")

// Server serves clients of one Postgres server. Make it with New.
type Server struct {
	config  atomic.Pointer[Config]
	log     *slog.Logger
	metrics *Metrics

	memory memory // of sessions
	loops  []poll.Loop
	turn   atomic.Uint32 // whose the next session is

	opening  limit        // handshakes
	admitted limit        // of those that MaxConnections counts
	live     atomic.Int64 // sessions

	// session relays what follows the handshake; tests have others.
	session func(ctx context.Context, l *link, drain <-chan struct{}) error

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

// loop is the loop of the next session.
func (s *Server) loop() *poll.Loop {
	return &s.loops[int(s.turn.Add(1))%len(s.loops)]
}

// New returns a server for c, or says what is wrong with it. The server is not
// asked for, and need not run yet.
func New(c Config) (*Server, error) {
	config, err := c.complete()
	if err != nil {
		return nil, err
	}
	s := &Server{log: config.Logger, metrics: config.Metrics, serves: make(map[*serving]struct{})}
	s.loops = make([]poll.Loop, max(1, runtime.GOMAXPROCS(0)/coresPerLoop))
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
		if err == nil || !isTemporary(err) {
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
	setSocket(conn, config)
	_, isUnix := conn.(*net.UnixConn)
	h := &handshake{
		base: ctx, config: config, limit: &s.admitted, client: conn, unix: isUnix,
		log: s.log.With(keyClient, conn.RemoteAddr().String()),
	}
	l, err := s.shake(ctx, h)
	if h.counted {
		defer s.admitted.give()
	}
	if err != nil {
		s.end(h, err)
		return
	}
	s.metrics.sessionsTotal.Inc()
	s.metrics.sessions.Inc()
	s.live.Add(1)
	defer s.live.Add(-1)
	defer s.metrics.sessions.Dec()
	l.log.Debug("session begins")
	err = s.session(ctx, l, s.drain.Done())
	l.log.Debug("session ends", keyError, err)
}

// shake does the handshake within its time.
func (s *Server) shake(ctx context.Context, h *handshake) (*link, error) {
	if !s.opening.take(mostOpening(h.config.MaxConnections)) {
		h.mute = true
		return nil, refuseTooMany()
	}
	defer s.opening.give()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeout(ctx, h.config.HandshakeTimeout)
	defer stop()
	defer context.AfterFunc(s.drain, func() { cancel(errDraining) })()
	h.release = append(h.release, interruptAtEnd(ctx, h.client))
	l, err := h.run(ctx)
	// Also after an error: the end of ctx must not interrupt what the client is
	// told then.
	if kept := h.keep(); err == nil && !kept {
		err = context.Cause(ctx)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && !h.mute {
		err = ended(cause)
	}
	return l, err
}

// ended is why a handshake was interrupted.
func ended(cause error) error {
	switch {
	case errors.Is(cause, errDraining):
		return refuseDraining()
	case errors.Is(cause, context.DeadlineExceeded):
		return refuseTimeout()
	default:
		return cause
	}
}

// end ends a handshake that has come to nothing, and tells the client why.
func (s *Server) end(h *handshake, err error) {
	if h.upstream != nil {
		h.upstream.Close()
	}
	defer h.client.Close()
	var r *refusal
	switch {
	case errors.As(err, &r):
		s.metrics.refused.WithLabelValues(r.cause).Inc()
		h.log.Warn("client refused", keyCause, r.cause, keyError, err)
		if h.mute {
			return
		}
		_ = h.client.SetDeadline(time.Now().Add(refuseTimeLimit))
		if _, err := h.client.Write(r.wire()); err == nil {
			_ = lingerClose(h.client)
		}
	case errors.Is(err, errRejected):
		s.metrics.refused.WithLabelValues("server").Inc()
		h.log.Debug("client refused by the server")
	case errors.Is(err, errDone), errors.Is(err, io.EOF):
	default:
		h.log.Debug("client gone before it was authenticated", keyError, err)
	}
}
