package handshake

import (
	"crypto/tls"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
)

// Config is how clients reach one server. Package pgproxy has checked it, and
// says of its fields what they mean to whoever runs the proxy.
type Config struct {
	Upstream Upstream
	TLS      *TLS // with clients; nil if they can have none
	// AllowReplication lets replication connections through.
	AllowReplication bool
	// Timeout is how long a client may take until it is authenticated.
	Timeout time.Duration
	// Socket is for connections to the server.
	Socket  socket.Options
	Metrics Metrics
}

// Upstream is the server, and how it is reached.
type Upstream struct {
	Address        socket.Address
	TLSMode        TLSMode
	TLS            *tls.Config // nil for the defaults
	DirectTLS      bool        // TLS without asking for it first
	ConnectTimeout time.Duration
}

// TLS is how the proxy shows itself to its clients.
type TLS struct {
	Config     *tls.Config
	Required   bool // refuses those without
	VerifyUser bool // refuses those whose certificate is not the user's
}

// TLSMode is how much TLS a connection to the server must be, in the words of
// libpq's sslmode.
type TLSMode uint8

// The modes, each stricter than the one before.
const (
	TLSDisable TLSMode = iota
	TLSPrefer
	TLSRequire
	TLSVerifyCA
	TLSVerifyFull
)

// Metrics are what handshakes count. All of them are required.
type Metrics struct {
	Refused *prometheus.CounterVec // cause
	Cancels prometheus.Counter
}
