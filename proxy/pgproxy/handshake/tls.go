package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

const (
	tlsRecordHandshake = 0x16 // the first byte of a ClientHello's record
	alpn               = "postgresql"
)

// answerSSL answers an SSLRequest.
func (h *Handshake) answerSSL(ctx context.Context) error {
	if h.config.TLS == nil || h.unix {
		return h.answer('N')
	}
	if err := h.answer('S'); err != nil {
		return err
	}
	return h.startTLS(ctx, h.client)
}

// directTLS takes a client that has begun with TLS, of which first was read. It
// must ask for the protocol by its name, so that nobody can have it speak to us
// what it means for another server.
func (h *Handshake) directTLS(ctx context.Context, first []byte) error {
	if h.config.TLS == nil || h.unix {
		return errors.New("client began with TLS, which it cannot have here")
	}
	if err := h.startTLS(ctx, &unread{Conn: h.client, bytes: first}); err != nil {
		return err
	}
	if h.client.(*tls.Conn).ConnectionState().NegotiatedProtocol != alpn {
		return errors.New("client began with TLS without ALPN")
	}
	return nil
}

func (h *Handshake) startTLS(ctx context.Context, conn net.Conn) error {
	t := tls.Server(conn, h.config.TLS.server(&h.shown))
	if err := t.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS handshake with client: %w", err)
	}
	h.client = t
	return nil
}

// server is the configuration for one connection: shown becomes the certificate
// that its client is shown.
func (t *TLS) server(shown **tls.Certificate) *tls.Config {
	base := t.Config
	c := base.Clone()
	c.NextProtos = []string{alpn}
	c.SessionTicketsDisabled = true // a resumed session shows no certificate
	if c.MinVersion == 0 {
		c.MinVersion = tls.VersionTLS12
	}
	if c.ClientCAs != nil && c.ClientAuth == tls.NoClientCert {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	c.Certificates = nil
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := pick(base, hello)
		*shown = cert
		return cert, err
	}
	return c
}

// pick chooses a certificate as package tls does.
func pick(c *tls.Config, hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c.GetCertificate != nil {
		if cert, err := c.GetCertificate(hello); cert != nil || err != nil {
			return cert, err
		}
	}
	for i := range c.Certificates {
		if hello.SupportsCertificate(&c.Certificates[i]) == nil {
			return &c.Certificates[i], nil
		}
	}
	if len(c.Certificates) == 0 {
		return nil, errors.New("no certificate for this client")
	}
	return &c.Certificates[0], nil
}

// showed says whether the client has shown a certificate made out to user.
func (h *Handshake) showed(user string) bool {
	t, ok := h.client.(*tls.Conn)
	if !ok {
		return false
	}
	state := t.ConnectionState()
	return len(state.VerifiedChains) > 0 && state.PeerCertificates[0].Subject.CommonName == user
}

// unread is a connection of which some bytes were read too early.
type unread struct {
	net.Conn

	bytes []byte
}

func (u *unread) Read(p []byte) (int, error) {
	if len(u.bytes) == 0 {
		return u.Conn.Read(p)
	}
	n := copy(p, u.bytes)
	u.bytes = u.bytes[n:]
	return n, nil
}
