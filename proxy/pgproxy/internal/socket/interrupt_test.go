package socket

import (
	"context"
	"net"
	"testing"
	"time"
)

// hasty is a connection that tells when it is interrupted.
type hasty struct {
	net.Conn

	interrupted chan struct{} // closed then
}

func (h *hasty) SetDeadline(at time.Time) error {
	if at.Equal(LongAgo()) {
		close(h.interrupted)
	}
	return h.Conn.SetDeadline(at)
}

// Once it is released, an interruption has come or does not come any more.
func TestReleasedInterruption(t *testing.T) {
	t.Parallel()
	for range 100 {
		client, accepted := net.Pipe()
		conn := &hasty{accepted, make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		release := InterruptAtEnd(ctx, conn)
		cancel()
		if !release() {
			select {
			case <-conn.interrupted:
			default:
				t.Error("the interruption is still to come")
			}
		}
		client.Close()
		accepted.Close()
	}
}
