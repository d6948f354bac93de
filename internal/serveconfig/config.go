package serveconfig

import "time"

// Config is the configuration of fenceproxy serve. Its fields, and those of the
// structs in it, are the keys, by the name in the tag yaml; the tag default is
// what stands there if a file says nothing, the tag oneof all that may stand
// there, the tag least the least number of bytes. Durations have a unit, as in 10s, and are above 0 unless the tag zero
// says what 0 means.
type Config struct {
	// Admin is the HTTP listener for those who operate the proxy.
	Admin Admin `yaml:"admin"`
	// Log is what is written to standard error.
	Log Log `yaml:"log"`
	// ShutdownTimeout is how long sessions have to end after SIGTERM, or when
	// their listener has gone from the file, before they are cut.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout" default:"30s"`
	// Postgres are the listeners for clients of Postgres.
	Postgres []Postgres `yaml:"postgres"`
	// S3 are the listeners for clients of S3.
	S3 []S3 `yaml:"s3"`

	// plain are the paths of secrets that stand in the file itself.
	plain []string
	// where has the place of each key that was given, by its path.
	where map[string]string
	// file is what the configuration was read from, "" for flags.
	file string
}

// Admin is the listener of /healthz, /readyz and /metrics.
type Admin struct {
	// Listen is a host:port; without a host it is 127.0.0.1. None: no listener.
	Listen string `yaml:"listen"`
	// PProf adds the profiles of Go under /debug/pprof/, which show the
	// program's memory to whoever can connect.
	PProf bool `yaml:"pprof" default:"false"`
}

// Log says what is logged and how.
type Log struct {
	// Format is text (key=value) or json, one line each.
	Format string `yaml:"format" default:"text" oneof:"text json"`
	// Level is the least that is logged.
	Level string `yaml:"level" default:"info" oneof:"debug info warn error"`
	// Statements adds the text of what was refused to the line of a refusal of
	// Postgres.
	Statements bool `yaml:"statements" default:"false"`
}

// Postgres is one listener and the server behind it.
type Postgres struct {
	// Listen is where clients connect: a host:port, the path of a unix socket, or
	// its folder, as in /run/fenceproxy or /run/fenceproxy:6432.
	Listen string `yaml:"listen" need:"yes"`
	// SocketMode are the permissions of a unix socket, in octal.
	SocketMode Mode `yaml:"socket_mode" default:"0777"`
	// Upstream is the server.
	Upstream Upstream `yaml:"upstream" need:"yes"`
	// TLS is that with clients; none: they connect without.
	TLS *TLS `yaml:"tls"`
	// Untokened is what sessions without a token may do.
	Untokened string `yaml:"untokened" default:"read-only" oneof:"read-only deny allow"`
	// ClaimWait is how long the claim of a client's token waits for
	// transactions of older ones.
	ClaimWait time.Duration `yaml:"claim_wait" default:"10s"`
	// Evict ends the sessions of older tokens that a claim still waits for then.
	Evict bool `yaml:"evict" default:"false"`
	// MaxConnections is how many clients there may be at a time.
	MaxConnections int `yaml:"max_connections" default:"0" zero:"no limit"`
	// IdleInTransactionTimeout ends a session with a token that leaves a
	// transaction open and does nothing for so long: it holds up the next holder.
	IdleInTransactionTimeout time.Duration `yaml:"idle_in_transaction_timeout" default:"0s" zero:"no limit"`
	// AllowReplication lets replication connections through, which are not fenced.
	AllowReplication bool `yaml:"allow_replication" default:"false"`
	// HandshakeTimeout is how long a client may take from its connection until
	// it is authenticated; a person may have to type a password.
	HandshakeTimeout time.Duration `yaml:"handshake_timeout" default:"60s"`
	// KeepAlive is how long a TCP connection is silent before it is asked
	// whether the other end still lives.
	KeepAlive time.Duration `yaml:"keepalive" default:"30s" zero:"never"`
	// UserTimeout is how long what was sent over TCP may stay unacknowledged
	// before the connection counts as lost.
	UserTimeout time.Duration `yaml:"user_timeout" default:"2m" zero:"the system's own limit"`
	// MaxMessage is the largest statement that is looked at. A small number is
	// one that lacks its unit: it would end the sessions of most clients.
	MaxMessage Bytes `yaml:"max_message" default:"256MiB" least:"64KiB"`
}

// TLS is how the proxy shows itself to its clients.
type TLS struct {
	// Cert is a file with the certificate and those that signed it, in PEM.
	Cert string `yaml:"cert" need:"yes"`
	// Key is the file with its key, in PEM.
	Key string `yaml:"key" need:"yes"`
	// ClientCA is a file with authorities. If there is one, clients must show a
	// certificate that one of them signed.
	ClientCA string `yaml:"client_ca"`
	// Required refuses clients that do not ask for TLS.
	Required bool `yaml:"required" default:"false"`
	// VerifyUser refuses clients whose certificate is not made out to the user
	// that they log in as.
	VerifyUser bool `yaml:"verify_user" default:"false"`
}

// Upstream is the server to which clients of a listener are connected.
type Upstream struct {
	// Address is a host:port, the path of a unix socket, or its folder.
	Address string `yaml:"address" need:"yes"`
	// ConnectTimeout is how long it may take to reach it, TLS included.
	ConnectTimeout time.Duration `yaml:"connect_timeout" default:"10s"`
	// TLS is that with the server.
	TLS UpstreamTLS `yaml:"tls"`
}

// UpstreamTLS is how the proxy shows itself to the server and what it wants to
// see of it, with the words of libpq's sslmode.
type UpstreamTLS struct {
	// Mode is how much TLS it must be.
	Mode string `yaml:"mode" default:"disable" oneof:"disable prefer require verify-ca verify-full"`
	// CA is a file with the authorities that may have signed the server's
	// certificate. Without one verify-full trusts those of the system.
	CA string `yaml:"ca"`
	// Cert is a file with the proxy's own certificate.
	Cert string `yaml:"cert"`
	// Key is the file with its key.
	Key string `yaml:"key"`
	// ServerName is the name that the server is asked for, and that its
	// certificate must have with verify-full, if it is not the host of address.
	ServerName string `yaml:"server_name"`
	// Direct begins with TLS at once (PostgreSQL 17 and later).
	Direct bool `yaml:"direct" default:"false"`
}
