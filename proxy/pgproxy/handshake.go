package pgproxy

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// handshake brings a client from its first byte to AuthenticationOk, or to the
// refusal that it gets instead.
type handshake struct {
	base   context.Context // ends when the server stops hard
	config *Config
	limit  *limit
	log    *slog.Logger

	client net.Conn // as accepted, then perhaps in TLS
	unix   bool     // the client came by a unix socket
	// shown is the certificate that the client saw, nil without TLS.
	shown *tls.Certificate

	upstream net.Conn
	// offered is the certificate that the server showed, nil without TLS.
	offered []byte

	counted bool          // among the connections of MaxConnections
	mute    bool          // says nothing to the client any more
	release []func() bool // see keep
}

// errDone ends a connection that has had its answer, a cancel request's.
var errDone = errors.New("done")

// open reads first packets until one of them is a StartupMessage. Of the
// requests that may come before it, each is taken once: TLS for GSS encryption
// refused, and the other way round, but neither after TLS.
func (h *handshake) open(ctx context.Context) (*startup, error) {
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
func (h *handshake) firstPacket() (packet []byte, direct bool, err error) {
	packet, err = readN(h.client, make([]byte, 0, 128), 1)
	if err != nil {
		return nil, false, err
	}
	if packet[0] == tlsRecordHandshake && h.shown == nil {
		return packet, true, nil
	}
	if packet, err = readN(h.client, packet, 3); err != nil {
		return nil, false, noEOF(err)
	}
	n := binary.BigEndian.Uint32(packet)
	if n < minStartup || n > maxStartup {
		return nil, false, refusePacket("invalid length of startup packet")
	}
	packet, err = readN(h.client, packet, int(n)-4)
	return packet, false, noEOF(err)
}

// answer sends the one byte that answers a request for encryption. What a client
// sends behind such a request before it has the answer is not taken: whoever can
// insert bytes could have it taken for what came encrypted (CVE-2021-3935).
func (h *handshake) answer(b byte) error {
	if early, err := pending(h.client); err != nil || early {
		return errors.Join(err, refuseEarlyData())
	}
	_, err := h.client.Write([]byte{b})
	return err
}

// admit decides, before the server hears of it, whether a client may come in.
func (h *handshake) admit(s *startup) error {
	switch t := h.config.TLS; {
	case t == nil || h.unix:
	case t.Required && h.shown == nil:
		return refusePlain()
	case t.VerifyUser && !h.showed(s.user):
		return refuseCertificate(s.user)
	}
	if s.replication && !h.config.AllowReplication {
		return refuseReplication()
	}
	return nil
}

// run is the whole handshake. When it fails, close what it leaves.
func (h *handshake) run(ctx context.Context) (*link, error) {
	s, err := h.open(ctx)
	if err != nil {
		return nil, err
	}
	h.log = h.log.With(keyUser, s.user, keyDatabase, s.database)
	if err := h.admit(s); err != nil {
		return nil, err
	}
	if h.counted = h.limit.take(h.config.MaxConnections); !h.counted {
		return nil, refuseTooMany()
	}
	if err := h.connect(ctx, h.config.Upstream.TLSMode); err != nil {
		return nil, err
	}
	protocol, err := h.authenticate(ctx, s)
	if err != nil {
		return nil, err
	}
	return &link{
		client: h.client, server: h.upstream, protocol: protocol,
		user: s.user, database: s.database, application: s.application, replication: s.replication,
		config: h.config, log: h.log,
	}, nil
}

// connect reaches the server. From then on the end of ctx interrupts what h
// waits for there.
func (h *handshake) connect(ctx context.Context, mode TLSMode) error {
	conn, err := dial(ctx, h.config, mode)
	if err != nil {
		return err
	}
	h.upstream, h.offered = conn, leafOf(conn)
	h.release = append(h.release, interruptAtEnd(ctx, conn))
	return nil
}

// keep makes the connections the link's: the end of the handshake's context no
// longer interrupts them. It is false if it already has.
func (h *handshake) keep() bool {
	kept := true
	for _, release := range h.release {
		kept = release() && kept
	}
	return kept
}

// interruptAtEnd makes reads and writes of conn end when ctx does, until release
// is called; that is false if it came too late. Behind it no interruption comes
// any more: one that cuts off a write leaves TLS without a way to go on.
func interruptAtEnd(ctx context.Context, conn net.Conn) (release func() bool) {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		interrupt(conn)
	})
	return sync.OnceValue(func() bool {
		stopped := stop()
		if !stopped {
			<-interrupted
		}
		return stopped
	})
}

// interrupt ends what waits for conn, now and later.
func interrupt(conn net.Conn) { _ = rawOf(conn).SetDeadline(longAgo()) }

// longAgo is a deadline that has passed.
func longAgo() time.Time { return time.Unix(1, 0) }

// rawOf is the connection below TLS.
func rawOf(conn net.Conn) net.Conn {
	if t, ok := conn.(*tls.Conn); ok {
		return t.NetConn()
	}
	return conn
}
