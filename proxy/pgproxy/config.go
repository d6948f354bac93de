package pgproxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
)

const (
	defaultClaimWait        = 10 * time.Second
	defaultHandshakeTimeout = 60 * time.Second
	defaultConnectTimeout   = 10 * time.Second
	defaultKeepAlive        = 30 * time.Second
	defaultUserTimeout      = 2 * time.Minute
	defaultMaxMessage       = 256 << 20
)

// Config is how clients reach one server. The zero value of each field but
// Upstream.Address is its default.
type Config struct {
	// Upstream is the server. Its Address is required.
	Upstream Upstream
	// TLS is that with clients. Defaults to none: clients that ask for it are
	// told that there is none, as a server with ssl = off does.
	TLS *TLS
	// Untokened is what sessions without a token may do. Defaults to ReadOnly.
	Untokened Policy
	// ClaimWait is how long the claim of a client's token waits for the
	// transactions of older ones. Defaults to 10 s.
	ClaimWait time.Duration
	// Evict makes a claim end the sessions of older tokens that it still waits
	// for after ClaimWait. Defaults to false: the claim is given up.
	Evict bool
	// MaxConnections is how many clients may be served at a time; one more gets
	// FATAL 53300. Cancel requests do not count. Defaults to 0, no limit: the
	// server's own max_connections, of which every client takes one, is enough
	// unless others are to find room there too.
	MaxConnections int
	// IdleInTransaction is how long a session with a token may leave a
	// transaction open and do nothing, before it gets FATAL 25P03: it holds up
	// the next holder. Defaults to 0, no limit.
	IdleInTransaction time.Duration
	// AllowReplication lets replication connections through, which are not
	// fenced. Defaults to false: they get FATAL TK007.
	AllowReplication bool
	// HandshakeTimeout is how long a client may take from its connection until
	// it is authenticated, a person's typing of a password included. The server
	// has a limit of its own, authentication_timeout. Defaults to 60 s.
	HandshakeTimeout time.Duration
	// KeepAlive is how long a TCP connection, of a client or to the server, may
	// be silent before the other end is asked whether it still lives; it is
	// asked three times in as long again. Defaults to 30 s; negative is never.
	KeepAlive time.Duration
	// UserTimeout is how long what was sent over TCP, to a client or to the
	// server, may stay unacknowledged before the connection counts as lost
	// (Linux). Defaults to 2 min; negative is the system's own limit.
	UserTimeout time.Duration
	// MaxMessage is the largest statement, in bytes, that is looked at: memory
	// for it is taken as it comes, never as it is announced. A larger one is
	// refused, as is a larger function call before PostgreSQL 16 in a session that
	// may not write. Defaults to 256 MiB.
	MaxMessage int
	// Logger gets one line for each refusal, and what happens to sessions at
	// level debug; never a password, a token's holder or, without LogStatements, a
	// statement. Defaults to none.
	Logger *slog.Logger
	// LogStatements has a refusal logged with the first KiB of the statement's
	// text, in which there may be whatever clients write into statements:
	// passwords and tokens too. Defaults to false.
	LogStatements bool
	// Metrics are counted in. Defaults to none. Servers may share them.
	Metrics *Metrics
}

// Upstream is the server, and how it is reached.
type Upstream struct {
	// Address is a host:port; or the path of a unix socket, like
	// /var/run/postgresql/.s.PGSQL.5432; or its folder, in which the socket of
	// port 5432 is taken, or of another one: /var/run/postgresql:5433.
	Address string
	// TLSMode is how much TLS it must be. Defaults to TLSDisable. Over a unix
	// socket there is no TLS, whatever the mode.
	TLSMode TLSMode
	// TLS has the RootCAs that may have signed the server's certificate, the
	// Certificates that the proxy shows to the server, and the ServerName that
	// the server is asked for, if it is not the host of Address. Defaults to
	// the authorities of the system, no certificate, the host.
	TLS *tls.Config
	// DirectTLS begins with TLS at once, without asking for it first, as libpq
	// does with sslnegotiation=direct. Needs PostgreSQL 17 or later and a
	// TLSMode of TLSRequire or above.
	DirectTLS bool
	// ConnectTimeout is how long it may take to reach the server, TLS included.
	// Defaults to 10 s.
	ConnectTimeout time.Duration
}

// TLS is how the proxy shows itself to its clients. Over unix sockets there is
// no TLS, as in Postgres.
type TLS struct {
	// Config has the Certificates, or GetCertificate, that clients are shown.
	// With ClientCAs, a certificate that a client shows is verified, and with
	// ClientAuth set to tls.RequireAndVerifyClientCert it must show one.
	// GetConfigForClient is not supported. MinVersion defaults to TLS 1.2; there
	// are no session tickets, as in Postgres.
	Config *tls.Config
	// Required refuses clients that come without TLS, with FATAL 28000. Cancel
	// requests, which libpq before 17 always sends in the clear, are taken.
	Required bool
	// VerifyUser refuses clients whose certificate has another common name than
	// the user that they log in as, or that show none, with FATAL 28000. It takes
	// the place of the server's own method cert, to which the proxy can only
	// show its own certificate.
	VerifyUser bool
}

// Policy is what sessions without a token may do.
type Policy uint8

const (
	// ReadOnly: they may read; the server refuses their writes.
	ReadOnly Policy = iota
	// Deny: their statements are refused with TK005.
	Deny
	// Allow: they do as they like, and nothing of it is fenced.
	Allow
)

func policies() []string { return []string{ReadOnly: "read-only", Deny: "deny", Allow: "allow"} }

// String is the policy's name: read-only, deny or allow.
func (p Policy) String() string { return nameOf(policies(), int(p)) }

// MarshalText gives the policy's name.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText takes a policy's name.
func (p *Policy) UnmarshalText(text []byte) error {
	i, err := indexOf(policies(), "policy", string(text))
	*p = Policy(i) //nolint:gosec // an index of policies
	return err
}

// TLSMode is how much TLS a connection to the server must be, in the words of
// libpq's sslmode.
type TLSMode uint8

const (
	// TLSDisable: none.
	TLSDisable TLSMode = iota
	// TLSPrefer: if the server has it, and not for a client whose authentication
	// needs the server to have none; see the package's documentation. Whoever can
	// change what is sent can prevent it.
	TLSPrefer
	// TLSRequire: always, with whatever server answers; with RootCAs as
	// TLSVerifyCA, which libpq does too.
	TLSRequire
	// TLSVerifyCA: the server's certificate is signed by one of the authorities.
	TLSVerifyCA
	// TLSVerifyFull: and is made out to the name that was asked for.
	TLSVerifyFull
)

func tlsModes() []string {
	return []string{
		TLSDisable: "disable", TLSPrefer: "prefer", TLSRequire: "require",
		TLSVerifyCA: "verify-ca", TLSVerifyFull: "verify-full",
	}
}

// String is the mode's name, as in sslmode.
func (m TLSMode) String() string { return nameOf(tlsModes(), int(m)) }

// MarshalText gives the mode's name.
func (m TLSMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText takes a mode's name.
func (m *TLSMode) UnmarshalText(text []byte) error {
	i, err := indexOf(tlsModes(), "TLS mode", string(text))
	*m = TLSMode(i) //nolint:gosec // an index of tlsModes
	return err
}

func nameOf(names []string, i int) string {
	if i >= len(names) {
		return fmt.Sprintf("invalid(%d)", i)
	}
	return names[i]
}

func indexOf(names []string, what, text string) (int, error) {
	for i, name := range names {
		if name == text {
			return i, nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q: must be one of %q", what, text, names)
}

// complete returns the settings of the config with its defaults, or says what is
// wrong with it.
func (c Config) complete() (*settings, error) {
	setDefault(&c.ClaimWait, defaultClaimWait)
	setDefault(&c.HandshakeTimeout, defaultHandshakeTimeout)
	setDefault(&c.Upstream.ConnectTimeout, defaultConnectTimeout)
	setDefault(&c.KeepAlive, defaultKeepAlive)
	setDefault(&c.UserTimeout, defaultUserTimeout)
	setDefault(&c.MaxMessage, defaultMaxMessage)
	setDefault(&c.Logger, slog.New(slog.DiscardHandler))
	if c.Metrics == nil {
		c.Metrics = newMetrics()
	}
	if err := errors.Join(c.validate(), c.Upstream.validate(), c.TLS.validate()); err != nil {
		return nil, err
	}
	return newSettings(c)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) validate() error {
	switch {
	case int(c.Untokened) >= len(policies()):
		return fmt.Errorf("pgproxy: unknown policy %d", c.Untokened)
	case c.ClaimWait < 0, c.HandshakeTimeout < 0, c.IdleInTransaction < 0, c.Upstream.ConnectTimeout < 0:
		return errors.New("pgproxy: ClaimWait, HandshakeTimeout, IdleInTransaction and ConnectTimeout must not be negative")
	case c.MaxConnections < 0, c.MaxMessage < 0:
		return errors.New("pgproxy: MaxConnections and MaxMessage must not be negative")
	}
	return nil
}

func (u *Upstream) validate() error {
	at, err := socket.ParseAddress(u.Address)
	switch {
	case err != nil:
		return fmt.Errorf("pgproxy: upstream: %w", err)
	case int(u.TLSMode) >= len(tlsModes()):
		return fmt.Errorf("pgproxy: upstream: unknown TLS mode %d", u.TLSMode)
	case u.DirectTLS && u.TLSMode < TLSRequire:
		return fmt.Errorf("pgproxy: upstream: DirectTLS needs TLS mode require or above, not %s", u.TLSMode)
	case u.TLSMode == TLSVerifyFull && !at.Unix() && at.Host == "" && (u.TLS == nil || u.TLS.ServerName == ""):
		return fmt.Errorf("pgproxy: upstream: %s needs a host, in the address or as ServerName", u.TLSMode)
	}
	return nil
}

func (t *TLS) validate() error {
	switch {
	case t == nil:
		return nil
	case t.Config == nil, len(t.Config.Certificates) == 0 && t.Config.GetCertificate == nil:
		return errors.New("pgproxy: TLS needs a certificate")
	case t.Config.GetConfigForClient != nil:
		return errors.New("pgproxy: TLS does not support GetConfigForClient")
	case t.VerifyUser && t.Config.ClientCAs == nil:
		return errors.New("pgproxy: VerifyUser needs ClientCAs")
	}
	return nil
}
