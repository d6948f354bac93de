package pgproxy

import (
	"context"
	"io/fs"
	"net"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
)

// Listen listens where address says: at a host:port, or at a unix socket, named
// as in Upstream.Address. The socket gets the permissions mode, and one that a
// proxy left behind when it was killed is replaced; one at which somebody still
// listens is an error. The socket is removed when the listener is closed.
func Listen(ctx context.Context, address string, mode fs.FileMode) (net.Listener, error) {
	return socket.Listen(ctx, address, mode)
}
