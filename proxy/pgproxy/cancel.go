package pgproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
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
func (h *handshake) cancel(packet []byte) error {
	h.mute = true
	h.config.Metrics.cancels.Inc()
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
	defer conn.Close()
	defer interruptAtEnd(ctx, conn)()
	if _, err := conn.Write(packet); err != nil {
		return fmt.Errorf("relay cancel request: %w", err)
	}
	_, _ = io.Copy(io.Discard, conn) // nothing, and then the end
	return errDone
}
