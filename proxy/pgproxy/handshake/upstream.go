package handshake

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
)

// errNoTLS is a server that has none.
var errNoTLS = errors.New("the server does not support TLS")

// dial connects to the server, with as much TLS as mode says. Its error is a
// refusal, unless ctx has ended.
func dial(ctx context.Context, c *Config, mode TLSMode) (net.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, c.Upstream.ConnectTimeout)
	defer cancel()
	conn, err := dialServer(bounded, c, mode)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, err
	case bounded.Err() != nil:
		return nil, refusal.Upstream("timeout expired", err)
	default:
		return nil, refusal.Upstream(reasonOf(err), err)
	}
}

func dialServer(ctx context.Context, c *Config, mode TLSMode) (net.Conn, error) {
	at := c.Upstream.Address
	d := net.Dialer{KeepAlive: -1} // Options.Set's business
	conn, err := d.DialContext(ctx, at.Network, at.Where)
	if err != nil {
		return nil, err
	}
	c.Socket.Set(conn)
	if at.Unix() || mode == TLSDisable {
		return conn, nil
	}
	secured, err := c.Upstream.secure(ctx, conn, at.Host, mode)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

// secure begins TLS on conn.
func (u *Upstream) secure(ctx context.Context, conn net.Conn, host string, mode TLSMode) (net.Conn, error) {
	if !u.DirectTLS {
		ok, err := requestTLS(ctx, conn)
		switch {
		case err != nil:
			return nil, err
		case !ok && mode == TLSPrefer:
			return conn, nil
		case !ok:
			return nil, errNoTLS
		}
	}
	t := tls.Client(conn, u.client(host, mode))
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake with server: %w", err)
	}
	if u.DirectTLS && t.ConnectionState().NegotiatedProtocol != alpn {
		return nil, errors.New("server took TLS without ALPN")
	}
	return t, nil
}

// requestTLS asks for TLS. An answer of more than one byte is not taken, for the
// reason that (*Handshake).answer has; nor is an error, which anybody may have
// sent (CVE-2024-10977).
func requestTLS(ctx context.Context, conn net.Conn) (bool, error) {
	release := socket.InterruptAtEnd(ctx, conn)
	defer release()
	request := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, minStartup), codeSSL)
	if _, err := conn.Write(request); err != nil {
		return false, err
	}
	var b [1]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return false, fmt.Errorf("read answer to SSLRequest: %w", socket.NoEOF(err))
	}
	switch early, err := socket.Pending(conn); {
	case err != nil:
		return false, err
	case !release():
		return false, context.Cause(ctx)
	case early:
		return false, errors.New("server sent unencrypted data after its answer to SSLRequest")
	case b[0] == 'S', b[0] == 'N':
		return b[0] == 'S', nil
	}
	return false, fmt.Errorf("server answered SSLRequest with byte %#x", b[0])
}

// client is the configuration of TLS with the server.
func (u *Upstream) client(host string, mode TLSMode) *tls.Config {
	c := u.TLS.Clone()
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if c.ServerName == "" {
		c.ServerName = host
	}
	c.NextProtos = []string{alpn}
	if mode == TLSRequire && c.RootCAs != nil {
		mode = TLSVerifyCA
	}
	switch mode {
	case TLSVerifyFull, TLSDisable:
	case TLSVerifyCA:
		roots := c.RootCAs
		c.InsecureSkipVerify = true // for the name alone: the chain is verified here
		c.VerifyConnection = func(state tls.ConnectionState) error { return verifyChain(roots, state) }
	case TLSPrefer, TLSRequire:
		c.InsecureSkipVerify = true // as these modes of libpq's say
	}
	return c
}

func verifyChain(roots *x509.CertPool, state tls.ConnectionState) error {
	between := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
	}
	return nil
}

// leafOf is the certificate that a server has shown, nil without TLS.
func leafOf(conn net.Conn) []byte {
	if t, ok := conn.(*tls.Conn); ok {
		return t.ConnectionState().PeerCertificates[0].Raw
	}
	return nil
}

// reasonOf says what a client may know of why the server cannot be reached:
// nothing of where it is.
func reasonOf(err error) string {
	var (
		lookup *net.DNSError
		cert   *tls.CertificateVerificationError
		alert  tls.AlertError
	)
	switch {
	case errors.Is(err, errNoTLS):
		return errNoTLS.Error()
	case errors.As(err, &cert):
		return "the server's certificate cannot be verified"
	case errors.As(err, &alert):
		return "the server refused the TLS handshake"
	case errors.As(err, &lookup):
		return "its host name cannot be resolved"
	case errors.Is(err, os.ErrNotExist):
		return "its socket does not exist"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	default:
		return "connection failed"
	}
}

// Probe returns nil if the server can be reached, with as much TLS as c wants,
// and has answered. It asks for TLS even where sessions have none: a server that
// merely has a port would not answer. If it has TLS, the handshake is done too,
// since Postgres would log one that breaks off.
func Probe(ctx context.Context, c *Config) error {
	conn, err := dialServer(ctx, c, max(c.Upstream.TLSMode, TLSPrefer))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, ok := conn.(*net.UnixConn); ok { // where dialServer asks for nothing
		_, err = requestTLS(ctx, conn)
	}
	return err
}
