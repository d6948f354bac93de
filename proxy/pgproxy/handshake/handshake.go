package handshake

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
)

// Keys of log lines.
const (
	keyUser     = "user"
	keyDatabase = "database"
	keyCause    = "cause"
	keyError    = "error"
	keyStack    = "stack"
)

// Handshake brings a client from its first byte to AuthenticationOk, or to the
// refusal that it gets instead. Make it with New.
type Handshake struct {
	base   context.Context // ends when the server stops hard
	config *Config
	enter  func() bool // see New
	log    *slog.Logger

	client net.Conn // as accepted, then perhaps in TLS
	unix   bool     // the client came by a unix socket
	// shown is the certificate that the client saw, nil without TLS.
	shown *tls.Certificate

	upstream net.Conn
	// offered is the certificate that the server showed, nil without TLS.
	offered []byte

	mute    bool          // says nothing to the client any more
	release []func() bool // see keep
}

// Login is a client and its server connection after AuthenticationOk has been
// relayed to the client. Nothing that was read is left in a buffer: the next
// byte of either is the first of a message. Who has it owns both connections.
type Login struct {
	Client, Server net.Conn // *net.TCPConn, *net.UnixConn or *tls.Conn

	// Of the StartupMessage. The database defaults to the user; Application is
	// application_name, "" if there is none.
	User, Database, Application string

	// Replication is set for a walsender, which only AllowReplication lets in. One
	// with a database takes SQL too, by Query.
	Replication bool

	// Protocol is what the server agreed to: 3.0 is 196608, 3.2 is 196610.
	Protocol uint32

	// Log says which client it is.
	Log *slog.Logger
}

// New returns the handshake of a client that has connected. Enter is asked before
// the server hears of the client, and is false if there are too many; it is not
// asked about cancel requests. The end of base cuts off what goes on when Run's
// context has ended: a cancel request.
func New(base context.Context, c *Config, client net.Conn, enter func() bool, log *slog.Logger) *Handshake {
	_, isUnix := client.(*net.UnixConn)
	return &Handshake{base: base, config: c, enter: enter, client: client, unix: isUnix, log: log}
}

// errDone ends a connection that has had its answer, a cancel request's.
var errDone = errors.New("done")

// open reads first packets until one of them is a StartupMessage. Of the
// requests that may come before it, each is taken once: TLS for GSS encryption
// refused, and the other way round, but neither after TLS.
func (h *Handshake) open(ctx context.Context) (*startup, error) {
	var askedTLS, askedGSS bool
	for {
		packet, direct, err := h.firstPacket()
		if err != nil {
			return nil, err
		}
		if direct {
			if err := h.directTLS(ctx, packet); err != nil {
				return nil, err
			}
			continue
		}
		switch code := binary.BigEndian.Uint32(packet[4:]); {
		case code == codeCancel:
			return nil, h.cancel(packet)
		case code == codeSSL && len(packet) == minStartup && !askedTLS && h.shown == nil:
			askedTLS = true
			err = h.answerSSL(ctx)
		case code == codeGSSENC && len(packet) == minStartup && !askedGSS && h.shown == nil:
			askedGSS = true
			err = h.answer('N')
		default:
			return parseStartup(packet)
		}
		if err != nil {
			return nil, err
		}
	}
}

// firstPacket reads a packet without a type, or says that the client has begun
// with TLS at once: then packet is what was read of that, its first byte. That
// is no length of a packet, whose first byte is 0.
func (h *Handshake) firstPacket() (packet []byte, direct bool, err error) {
	packet, err = readN(h.client, make([]byte, 0, 128), 1)
	if err != nil {
		return nil, false, err
	}
	if packet[0] == tlsRecordHandshake && h.shown == nil {
		return packet, true, nil
	}
	if packet, err = readN(h.client, packet, 3); err != nil {
		return nil, false, socket.NoEOF(err)
	}
	n := binary.BigEndian.Uint32(packet)
	if n < minStartup || n > maxStartup {
		return nil, false, refusal.Packet("invalid length of startup packet")
	}
	packet, err = readN(h.client, packet, int(n)-4)
	return packet, false, socket.NoEOF(err)
}

// answer sends the one byte that answers a request for encryption. What a client
// sends behind such a request before it has the answer is not taken: whoever can
// insert bytes could have it taken for what came encrypted (CVE-2021-3935).
func (h *Handshake) answer(b byte) error {
	if early, err := socket.Pending(h.client); err != nil || early {
		return errors.Join(err, refusal.EarlyData())
	}
	_, err := h.client.Write([]byte{b})
	return err
}

// admit decides, before the server hears of it, whether a client may come in.
func (h *Handshake) admit(s *startup) error {
	switch t := h.config.TLS; {
	case t == nil || h.unix:
	case t.Required && h.shown == nil:
		return refusal.Plain()
	case t.VerifyUser && !h.showed(s.user):
		return refusal.Certificate(s.user)
	}
	if s.replication && !h.config.AllowReplication {
		return refusal.Replication()
	}
	return nil
}

// connect reaches the server. From then on the end of ctx interrupts what h
// waits for there.
func (h *Handshake) connect(ctx context.Context, mode TLSMode) error {
	conn, err := dial(ctx, h.config, mode)
	if err != nil {
		return err
	}
	h.upstream, h.offered = conn, leafOf(conn)
	h.release = append(h.release, socket.InterruptAtEnd(ctx, conn))
	return nil
}

// keep makes the connections the login's: the end of the handshake's context no
// longer interrupts them. It is false if it already has.
func (h *Handshake) keep() bool {
	kept := true
	for _, release := range h.release {
		kept = release() && kept
	}
	return kept
}
