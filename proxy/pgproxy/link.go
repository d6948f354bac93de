package pgproxy

import (
	"log/slog"
	"net"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/poll"
)

// link is a client and its server connection after AuthenticationOk has been
// relayed to the client. Nothing that was read is left in a buffer: the next
// byte of either is the first of a message. The session owns both connections
// from here on, and closes them.
type link struct {
	client, server net.Conn // *net.TCPConn, *net.UnixConn or *tls.Conn

	// Of the StartupMessage. The database defaults to the user; application is
	// application_name, "" if there is none.
	user, database, application string

	// replication is set for a walsender, which only AllowReplication lets in.
	// One with a database takes SQL too, by Query.
	replication bool

	// protocol is what the server agreed to: 3.0 is 196608, 3.2 is 196610.
	protocol uint32

	// secret is the body of BackendKeyData, process id and key, nil if the server
	// sent none. The session fills it in, for a cancel when the client is gone.
	secret []byte

	// config is the one that was in force when the client connected.
	config *Config
	// log says which client it is.
	log *slog.Logger
}

// adopt makes both connections those of a loop, unless one of them is in TLS: for
// that, the runtime waits as well as any, and so it does if the loop cannot.
func (l *link) adopt(loop *poll.Loop) {
	if rawOf(l.client) != l.client || rawOf(l.server) != l.server {
		return
	}
	for _, conn := range []*net.Conn{&l.client, &l.server} {
		adopted, ok, err := loop.Adopt(*conn)
		if err != nil {
			l.log.Debug("connection stays with the runtime", keyError, err)
		}
		if ok {
			*conn = adopted
		}
	}
}
