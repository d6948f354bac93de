package zklock

import (
	"context"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/zklock/internal/zkconn"
)

// errDeleted is why a lease is over whose session is not.
var errDeleted = fmt.Errorf("%w: its node is gone from ZooKeeper", locks.ErrLost)

// openTimeout is how long an acquisition without a session tries to get one.
const openTimeout = 5 * time.Second

// zkSession is a session of ZooKeeper that many locks share, and what it knows of
// the issuer.
type zkSession struct {
	*zkconn.Session
	locker *Locker
	issuer issuer
}

// connection is the configuration of sessions and visits.
func (l *Locker) connection() zkconn.Config {
	c := zkconn.Config{Servers: l.dial.Servers, TLS: l.dial.TLS, TTL: l.config.TTL, Logger: l.config.Logger}
	for _, auth := range l.dial.Auth {
		c.Auth = append(c.Auth, zkconn.Auth(auth))
	}
	return c
}

// open opens a session, and finds the issuer.
func (l *Locker) open() (*zkSession, error) {
	ctx, cancel := context.WithTimeout(l.ctx, openTimeout)
	defer cancel()
	conn, err := zkconn.Open(ctx, l.connection())
	if err == nil {
		s := &zkSession{Session: conn, locker: l}
		if _, err = s.theIssuer(ctx); err == nil {
			return s, nil
		}
		s.End(err)
		s.Serve()
	}
	return nil, fmt.Errorf("open session at %v: %w", l.dial.Servers, err)
}
