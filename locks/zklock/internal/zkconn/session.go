package zkconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/session"
)

// The keys of log lines.
const (
	keySession = "session"
	keyError   = "error"
)

// ErrExpired is the cause of a session that is over in ZooKeeper.
var ErrExpired = fmt.Errorf("%w: its session has expired in ZooKeeper", locks.ErrLost)

var errNoServer = errors.New("no server answers")

// noServer is errNoServer, with why a connection could not be made if that is known.
func noServer(refused error) error {
	if refused == nil {
		return errNoServer
	}
	return fmt.Errorf("%w: %w", errNoServer, refused)
}

// Config says how to reach ZooKeeper.
type Config struct {
	// Servers are the members of the ensemble, host:port. Names are resolved
	// anew for every connection.
	Servers []string
	// Auth are the identities of the client.
	Auth []Auth
	// TLS is the configuration of the connections; nil for none.
	TLS *tls.Config
	// TTL is the timeout of a session to ask for.
	TTL time.Duration
	// Logger gets what happens to sessions and connections.
	Logger *slog.Logger
}

// Auth is one identity of a client: its scheme, and what the scheme wants.
type Auth struct {
	Scheme      string
	Credentials string
}

func (c Config) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if c.TLS != nil {
		return (&tls.Dialer{Config: c.TLS}).DialContext(ctx, network, addr)
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

// Session is a session of ZooKeeper that many locks share.
type Session struct {
	*session.Life
	config Config
	conn   *zk.Conn
	events <-chan zk.Event // closed when conn has ended
	id     int64           // these are set when opened is closed
	born   time.Time
	opened chan struct{}

	mu          sync.Mutex
	calls       sync.WaitGroup // none is added when the session is over
	wire        *wire          // the newest connection
	refused     error          // why one could not be made
	connections int            // that a server has greeted
	closed      bool           // the server said so
	watches     map[string][]*Watch
	armed       map[string]*armed // by path, the watches that the client may have
}

// terms are those of a timeout.
func terms(ttl time.Duration) session.Terms {
	return session.Terms{TTL: ttl, Sure: ttl * 2 / 3, Renew: ttl / 4}
}

func newSession(c Config) *Session {
	return &Session{
		Life: session.NewLife(terms(c.TTL)), config: c, opened: make(chan struct{}),
		watches: map[string][]*Watch{}, armed: map[string]*armed{},
	}
}

// Open opens a session, as all of the identities. It has to be served.
func Open(ctx context.Context, c Config) (*Session, error) {
	s := newSession(c)
	var err error
	s.conn, s.events, err = zk.Connect(c.Servers, c.TTL,
		zk.WithDialer(s.connect), zk.WithHostProvider(&hosts{}), zk.WithEventCallback(s.happened),
		zk.WithLogger(logger{c.Logger}), zk.WithLogInfo(false))
	if err != nil {
		s.End(err)
		return nil, err
	}
	if err := s.establish(ctx); err != nil {
		s.End(err)
		s.Serve()
		return nil, err
	}
	return s, nil
}

func (s *Session) establish(ctx context.Context) error {
	select {
	case <-s.opened:
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		return noServer(s.refused)
	}
	for _, auth := range s.config.Auth {
		err := s.Retry(ctx, func() error {
			_, err := Ask(ctx, s, func(c *zk.Conn) (struct{}, error) {
				return struct{}{}, c.AddAuth(auth.Scheme, []byte(auth.Credentials))
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("authenticate by %s: %w", auth.Scheme, err)
		}
	}
	return nil
}

// connect opens a connection for the client. A session that is over gets no
// more: the client would open another in its place.
func (s *Session) connect(network, addr string, timeout time.Duration) (net.Conn, error) {
	limit := max(timeout, s.hangLimit())
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	conn, err := s.config.dial(ctx, network, addr)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refused = err
		return nil, err
	}
	w := newWire(s, conn)
	s.mu.Lock()
	old, over := s.wire, s.Over()
	s.wire = w
	s.mu.Unlock()
	if old != nil {
		old.Close() // the client forgets to, when the session has expired
	}
	if over != nil {
		w.Close()
		return nil, over
	}
	return w, nil
}

// ID is the session's id.
func (s *Session) ID() int64 { return s.id }

// Name is how ZooKeeper's tools write the session's id.
func (s *Session) Name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("0x%x", uint64(s.id)) //nolint:gosec // an id
}

// Connections is how many connections the session has had so far. On a new one
// an answer may come before the event of a watch that was missed.
func (s *Session) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}

// greeted takes a server's answer to a connection: which session it belongs to,
// and when the session ends that nobody hears of.
func (s *Session) greeted(id int64, ttl time.Duration, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.opened:
		if id != s.id { // 0, or the next one that the client opens by itself
			s.End(ErrExpired)
			return
		}
	default:
		if id == 0 {
			return // what the client asked for is gone; it asks again
		}
		s.id, s.born = id, time.Now()
		close(s.opened)
	}
	s.connections++
	s.Extend(sent, terms(ttl))
}

// answered takes the answer to a request. Only what the leader has seen counts.
func (s *Session) answered(r request) {
	switch r.op {
	case opClose:
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
	case opCreate, opDelete, opSetData, opSync, opMulti, opCreateContainer:
		s.Extend(r.sent, s.Terms())
	}
}

// hangLimit is how long a server may leave a request without an answer. With a
// request each quarter of the TTL it leaves a quarter to find another server.
func (s *Session) hangLimit() time.Duration { return s.Terms().TTL / 6 }

// Serve keeps the session alive until it ends, then closes it in ZooKeeper, which
// removes its nodes, or gives up on that after some seconds, and returns when
// nothing of it runs any more.
func (s *Session) Serve() {
	s.Keep(s.beat)
	level := slog.LevelDebug
	if s.Used() {
		level = slog.LevelWarn
	}
	s.config.Logger.Log(s.Context(), level, "session ended", keySession, s.Name(), keyError, s.Over())
	s.conn.Close()
	s.mu.Lock()
	w := s.wire
	s.mu.Unlock()
	if w != nil {
		w.Close()
	}
	for range s.events { // until the client has ended
	}
	s.calls.Wait()
}

// beat asks the leader for a sign of life, through whichever server it is. The
// client's own pings reach only the server.
func (s *Session) beat() error {
	_, err := Ask(s.Context(), s, func(c *zk.Conn) (string, error) { return c.Sync("/") })
	if err != nil {
		s.config.Logger.Debug("keep session", keySession, s.Name(), keyError, err)
	}
	return err
}

// Left is nil if the session is over in ZooKeeper too, after Serve.
func (s *Session) Left() error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed || errors.Is(s.Over(), ErrExpired) {
		return nil
	}
	return fmt.Errorf("close session %s: no answer from ZooKeeper, which ends it after %v", s.Name(), s.Terms().TTL)
}
