package handshake

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
)

// hasty is a connection that tells when it is interrupted.
type hasty struct {
	net.Conn

	interrupted chan struct{} // closed then
}

func (h *hasty) SetDeadline(at time.Time) error {
	if at.Equal(socket.LongAgo()) {
		close(h.interrupted)
	}
	return h.Conn.SetDeadline(at)
}

// A handshake that fails is over for what would have interrupted it, and not
// only when the client has been told why.
func TestRefusalIsNotInterrupted(t *testing.T) {
	t.Parallel()
	client, accepted := net.Pipe()
	defer client.Close()
	conn := &hasty{accepted, make(chan struct{})}
	go func() { _, _ = client.Write(startupPacket(protocol30, "user", "u", "replication", "true")) }()
	told := make(chan error, 1)
	h := newHandshake(t, withoutServer(t), conn)
	_, err := h.Run(t.Context(), t.Context())
	select {
	case <-conn.interrupted:
		t.Error("interrupted after the handshake")
	case <-time.After(50 * time.Millisecond):
	}
	go func() {
		_, err := io.ReadAll(client)
		told <- err
	}()
	h.End(err)
	if err := <-told; err != nil {
		t.Errorf("read refusal: %v", err)
	}
}
