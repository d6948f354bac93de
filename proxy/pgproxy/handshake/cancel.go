package handshake

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
)

// cancelTimeout bounds how long a server may take to close a connection that
// brought it a cancel request.
const cancelTimeout = 30 * time.Second

// cancel relays a CancelRequest to the server, whose own key it has: the proxy
// knows of no sessions here. There is no answer, but the client may count on the
// request having been dealt with when its connection ends, so that ends when the
// server's does. A client that does not wait is not waited for either, and its
// request is carried out all the same.
//
// https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-CANCELING-REQUESTS
func (h *Handshake) cancel(packet []byte) error {
	h.mute = true
	h.config.Metrics.Cancels.Inc()
	if len(packet) > maxCancel {
		return errors.New("cancel request is too long")
	}
	// Not the handshake's context, which ends when the proxy drains: what has
	// been asked for is done.
	ctx, cancel := context.WithTimeout(h.base, cancelTimeout)
	defer cancel()
	conn, err := dial(ctx, h.config, h.config.Upstream.TLSMode)
	if err != nil {
		return err
	}
	if err := deliver(ctx, conn, packet); err != nil {
		return fmt.Errorf("relay cancel request: %w", err)
	}
	return errDone
}

// deliver sends a cancel request on a connection of its own, and waits until the
// server has closed that.
func deliver(ctx context.Context, conn net.Conn, packet []byte) error {
	defer conn.Close()
	defer socket.InterruptAtEnd(ctx, conn)()
	if _, err := conn.Write(packet); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, conn) // nothing, and then the end
	return nil
}

// Cancel has the server cancel what runs in the session that it gave a secret,
// the body of its BackendKeyData, and waits until it has dealt with that, or ctx
// has ended. An error says that the server cannot be reached.
func Cancel(ctx context.Context, c *Config, secret []byte) error {
	conn, err := dial(ctx, c, c.Upstream.TLSMode)
	if err != nil {
		return err
	}
	packet := binary.BigEndian.AppendUint32(nil, uint32(8+len(secret))) //nolint:gosec // at most 256 bytes
	packet = binary.BigEndian.AppendUint32(packet, codeCancel)
	_ = deliver(ctx, conn, append(packet, secret...)) // the server never says whether it did anything
	return nil
}
