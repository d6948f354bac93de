package pgproxy

import (
	"context"
	"io"
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
	if at.Equal(longAgo()) {
		close(h.interrupted)
	}
	return h.Conn.SetDeadline(at)
}

// A handshake that fails is over for what would have interrupted it, and not
// only when the client has been told why.
func TestRefusalIsNotInterrupted(t *testing.T) {
	t.Parallel()
	f := startFront(t, Config{Upstream: Upstream{Address: "127.0.0.1:1"}})
	client, accepted := net.Pipe()
	defer client.Close()
	conn := &hasty{accepted, make(chan struct{})}
	go func() { _, _ = client.Write(startupPacket(protocol30, "user", "u", "replication", "true")) }()
	told := make(chan error, 1)
	config := f.config.Load()
	h := &handshake{base: t.Context(), config: config, limit: &f.admitted, client: conn, log: f.log}
	_, err := f.shake(t.Context(), h)
	select {
	case <-conn.interrupted:
		t.Error("interrupted after the handshake")
	case <-time.After(50 * time.Millisecond):
	}
	go func() {
		_, err := io.ReadAll(client)
		told <- err
	}()
	f.end(h, err)
	if err := <-told; err != nil {
		t.Errorf("read refusal: %v", err)
	}
}

// Once it is released, an interruption has come or does not come any more.
func TestReleasedInterruption(t *testing.T) {
	t.Parallel()
	for range 100 {
		client, accepted := net.Pipe()
		conn := &hasty{accepted, make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		release := interruptAtEnd(ctx, conn)
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
