package zklock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// openTimeout is how long an acquisition without a session tries to get one.
const openTimeout = 5 * time.Second

// openSession opens a session, as all of the identities, and finds the issuer.
func (l *Locker) openSession() (*session, error) {
	s := newSession(l)
	var err error
	s.conn, s.events, err = zk.Connect(l.dial.Servers, l.config.TTL,
		zk.WithDialer(s.connect), zk.WithHostProvider(&hosts{}), zk.WithEventCallback(s.happened),
		zk.WithLogger(logger{l.config.Logger}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(l.ctx, openTimeout)
	defer cancel()
	if err := s.establish(ctx); err != nil {
		s.end(errIdle)
		s.close()
		return nil, err
	}
	return s, nil
}

var errNoServer = errors.New("no server answers")

func (s *session) establish(ctx context.Context) error {
	select {
	case <-s.opened:
	case <-ctx.Done():
		return errNoServer
	}
	for _, auth := range s.locker.dial.Auth {
		err := s.retry(ctx, func() error {
			_, err := ask(ctx, s, func(c *zk.Conn) (struct{}, error) {
				return struct{}{}, c.AddAuth(auth.Scheme, []byte(auth.Credentials))
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("authenticate by %s: %w", auth.Scheme, err)
		}
	}
	_, err := s.theIssuer(ctx)
	return err
}

// connect opens a connection for the client. A session that is over gets no
// more: the client would open another in its place.
func (s *session) connect(network, addr string, timeout time.Duration) (net.Conn, error) {
	limit := max(timeout, s.hangLimit())
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	dial := (&net.Dialer{}).DialContext
	if config := s.locker.dial.TLS; config != nil {
		dial = (&tls.Dialer{Config: config}).DialContext
	}
	conn, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w := newWire(s, conn)
	s.mu.Lock()
	old, over := s.wire, s.ctx.Err()
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

// hosts tells the client where to connect to. The client would pause for a
// second in front of a server that it has just lost, and resolve names only
// once.
type hosts struct {
	servers []string
	next    int
	failed  int          // connections since the last one that was good
	good    [2]time.Time // when the last two good ones were made, the older one first
}

// Init implements zk.HostProvider.
func (h *hosts) Init(servers []string) error {
	h.servers = servers
	return nil
}

// Len implements zk.HostProvider.
func (h *hosts) Len() int { return len(h.servers) }

// Next implements zk.HostProvider. After a round in which no server was any
// good it has the client pause, which is also where the client looks whether it
// was closed; and so it does when good connections end at once, time after time.
func (h *hosts) Next() (server string, pause bool) {
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	pause = h.failed > 0 && h.failed%len(h.servers) == 0 ||
		h.failed == 0 && !h.good[0].IsZero() && time.Since(h.good[0]) < time.Second
	h.failed++
	return server, pause
}

// Connected implements zk.HostProvider.
func (h *hosts) Connected() {
	h.failed = 0
	h.good = [2]time.Time{h.good[1], time.Now()}
}

// logger takes what the client logs.
type logger struct{ *slog.Logger }

// Printf implements zk.Logger.
func (l logger) Printf(format string, args ...any) {
	l.Debug("ZooKeeper client: " + fmt.Sprintf(format, args...))
}
