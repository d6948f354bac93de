package socket

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// InterruptAtEnd makes reads and writes of conn end when ctx does, until release
// is called; that is false if it came too late. Behind it no interruption comes
// any more: one that cuts off a write leaves TLS without a way to go on.
func InterruptAtEnd(ctx context.Context, conn net.Conn) (release func() bool) {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		Interrupt(conn)
	})
	return sync.OnceValue(func() bool {
		stopped := stop()
		if !stopped {
			<-interrupted
		}
		return stopped
	})
}

// Interrupt ends what waits for conn, now and later.
func Interrupt(conn net.Conn) { _ = Below(conn).SetDeadline(LongAgo()) }

// LongAgo is a deadline that has passed.
func LongAgo() time.Time { return time.Unix(1, 0) }

// Below is the connection below TLS.
func Below(conn net.Conn) net.Conn {
	if t, ok := conn.(*tls.Conn); ok {
		return t.NetConn()
	}
	return conn
}
