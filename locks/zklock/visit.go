package zklock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// visit calls f with a connection of its own, which makes nothing, as a session
// of the Locker would (the issuer), and closes it. f is called again after a
// connection is lost, which must be safe. It returns when f has, at the latest
// a little after ctx has ended.
func (l *Locker) visit(ctx context.Context, f func(*zk.Conn) error) error {
	// The client does not end its connections when it is closed.
	life, end := context.WithCancel(context.Background())
	defer end()
	conn, events, err := zk.Connect(l.dial.Servers, l.config.TTL,
		zk.WithDialer(l.dialer(life)), zk.WithHostProvider(&hosts{}), zk.WithLogger(logger{l.config.Logger}), zk.WithLogInfo(false))
	if err != nil {
		return fmt.Errorf("connect to %v: %w", l.dial.Servers, err)
	}
	done := make(chan error, 1)
	go func() { done <- l.visited(ctx, conn, f) }()
	select {
	case err = <-done:
		conn.Close() // gracefully: the server forgets the session at once
		end()
	case <-ctx.Done():
		end()
		conn.Close()
		if err = <-done; lostConnection(err) {
			err = fmt.Errorf("%w at %v: %w", errNoServer, l.dial.Servers, ended(ctx))
		}
	}
	for range events { // until the client has ended
	}
	return err
}

func (l *Locker) visited(ctx context.Context, conn *zk.Conn, f func(*zk.Conn) error) error {
	authenticated := false
	for {
		var err error
		for _, auth := range l.dial.Auth {
			if !authenticated && err == nil {
				err = conn.AddAuth(auth.Scheme, []byte(auth.Credentials))
			}
		}
		if err == nil {
			authenticated = true
			err = f(conn)
		}
		if !lostConnection(err) || !sleep(ctx, minPause) {
			return err
		}
	}
}

// lostConnection reports whether err is no answer of ZooKeeper's.
func lostConnection(err error) bool {
	for _, lost := range []error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrSessionExpired, zk.ErrSessionMoved, zk.ErrClosing} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return false
}

// dialer makes connections that end with life.
func (l *Locker) dialer(life context.Context) zk.Dialer {
	dial := (&net.Dialer{}).DialContext
	if l.dial.TLS != nil {
		dial = (&tls.Dialer{Config: l.dial.TLS}).DialContext
	}
	return func(network, addr string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(life, timeout)
		defer cancel()
		conn, err := dial(ctx, network, addr)
		if err == nil {
			context.AfterFunc(life, func() { conn.Close() })
		}
		return conn, err
	}
}
