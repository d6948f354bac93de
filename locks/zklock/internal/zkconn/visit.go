package zkconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/locks/internal/wait"
)

// Visit calls f with a connection of its own, and closes it. f is called again after a
// connection is lost, which must be safe. It returns when f has, at the latest
// a little after ctx has ended.
func Visit(ctx context.Context, c Config, f func(*zk.Conn) error) error {
	// The client does not end its connections when it is closed.
	life, end := context.WithCancel(context.Background())
	defer end()
	dial := func(network, addr string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(life, timeout)
		defer cancel()
		conn, err := c.dial(ctx, network, addr)
		if err == nil {
			context.AfterFunc(life, func() { conn.Close() })
		}
		return conn, err
	}
	conn, events, err := zk.Connect(c.Servers, c.TTL,
		zk.WithDialer(dial), zk.WithHostProvider(&hosts{}), zk.WithLogger(logger{c.Logger}), zk.WithLogInfo(false))
	if err != nil {
		return fmt.Errorf("connect to %v: %w", c.Servers, err)
	}
	done := make(chan error, 1)
	go func() { done <- c.visited(ctx, conn, f) }()
	select {
	case err = <-done:
		conn.Close() // gracefully: the server forgets the session at once
		end()
	case <-ctx.Done():
		end()
		conn.Close()
		if err = <-done; lostConnection(err) {
			err = fmt.Errorf("%w at %v: %w", errNoServer, c.Servers, wait.Ended(ctx))
		}
	}
	for range events { // until the client has ended
	}
	return err
}

func (c Config) visited(ctx context.Context, conn *zk.Conn, f func(*zk.Conn) error) error {
	authenticated := false
	for {
		var err error
		for _, auth := range c.Auth {
			if !authenticated && err == nil {
				err = conn.AddAuth(auth.Scheme, []byte(auth.Credentials))
			}
		}
		if err == nil {
			authenticated = true
			err = f(conn)
		}
		if !lostConnection(err) || !wait.Sleep(ctx, wait.MinPause) {
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
