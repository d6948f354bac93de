package relay

import (
	"log/slog"
	"net"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/poll"
)

// Link is a client and its server connection after AuthenticationOk has been
// relayed to the client. Nothing that was read is left in a buffer: the next
// byte of either is the first of a message.
type Link struct {
	Client, Server net.Conn // *net.TCPConn, *net.UnixConn or *tls.Conn

	Database string
	// Replication is set for a walsender: it is not fenced.
	Replication bool

	// Config is the one that was in force when the client connected.
	Config *Config
	// Log says which client it is.
	Log *slog.Logger
}

// adopt makes both connections those of a loop, unless one of them is in TLS: for
// that, the runtime waits as well as any, and so it does if the loop cannot.
func (l *Link) adopt(loop *poll.Loop) {
	if socket.Below(l.Client) != l.Client || socket.Below(l.Server) != l.Server {
		return
	}
	for _, conn := range []*net.Conn{&l.Client, &l.Server} {
		adopted, ok, err := loop.Adopt(*conn)
		if err != nil {
			l.Log.Debug("connection stays with the runtime", keyError, err)
		}
		if ok {
			*conn = adopted
		}
	}
}
