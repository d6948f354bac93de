package handshake

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
)

const (
	scram     = "SCRAM-SHA-256"
	scramPlus = "SCRAM-SHA-256-PLUS"
)

// SCRAM can be bound to the TLS in which it takes place (SCRAM-SHA-256-PLUS), so
// that nobody who ends the TLS can stand between: which is what the proxy does.
//
// Where the client and the server see the same certificate, the proxy having the
// server's own, the binding holds and all is relayed. Where they do not, the
// proxy takes PLUS out of what the server offers, and a client that insists on it
// (channel_binding=require) gives up, as it should. One that does not insist but
// could have bound says so in what it signs ("y": libpq and pgx do, over TLS). A
// server over TLS, which has offered PLUS and hears that it has not, must take
// that for an attack and refuses. Over a plain connection, or a unix socket, it
// has not offered it, and all is well. The proxy can neither change what is
// signed nor sign itself; so it says what is the matter, instead of leaving the
// client with the server's riddle. Only under TLSPrefer, where TLS with the server is
// nothing to rely on, it connects again without TLS, as libpq does when such
// a connection is refused.
//
// RFC 5802, section 6; RFC 5929, section 4.

// sameCertificate says whether the client, at the proxy, saw the certificate
// that the proxy saw at the server: what is bound to is a hash of it.
func (h *Handshake) sameCertificate() bool {
	return h.shown != nil && bytes.Equal(h.shown.Certificate[0], h.offered)
}

// withoutPlus takes SCRAM-SHA-256-PLUS out of the mechanisms of an
// AuthenticationSASL.
func withoutPlus(frame []byte) (_ []byte, stripped bool) {
	plus := append([]byte(scramPlus), 0)
	kept := slices.Clone(frame[:headerSize+4])
	for rest := frame[headerSize+4:]; len(rest) > 0; {
		end := bytes.IndexByte(rest, 0) + 1
		if end == 0 {
			end = len(rest)
		}
		if bytes.Equal(rest[:end], plus) {
			stripped = true
		} else {
			kept = append(kept, rest[:end]...)
		}
		rest = rest[end:]
	}
	binary.BigEndian.PutUint32(kept[1:], uint32(len(kept)-1)) //nolint:gosec // no longer than frame
	return kept, stripped
}

// deniesBinding says whether a SASLInitialResponse has a client's word that it
// could bind, but that the server cannot.
func deniesBinding(frame []byte) bool {
	mechanism, data, ok := bytes.Cut(frame[headerSize:], []byte{0})
	return ok && string(mechanism) == scram && len(data) > 4 && data[4] == 'y'
}

// withoutTLS connects to the server once more, without TLS, and brings it to
// where it waits for the answer that the client has given.
func (h *Handshake) withoutTLS(ctx context.Context, s *startup) error {
	if h.config.Upstream.TLSMode != TLSPrefer {
		return refusal.Binding()
	}
	h.log.Debug("connecting to the server without TLS, for a client whose authentication it would refuse with TLS")
	h.upstream.Close()
	if err := h.connect(ctx, TLSDisable); err != nil {
		return err
	}
	h.send(s.packet)
	var buf []byte
	for {
		var err error
		if buf, err = h.nextFrame(ctx, buf); err != nil {
			return err
		}
		switch buf[0] {
		case msgNegotiateMinor: // as before, and relayed then
		case msgErrorResponse, msgNoticeResponse:
			if _, err := h.client.Write(buf); err != nil {
				return err
			}
			if buf[0] == msgErrorResponse {
				return errRejected
			}
		default:
			if !offers(buf, scram) {
				return refusal.Binding() // it wants something else than before
			}
			return nil
		}
	}
}

// offers says whether frame is an AuthenticationSASL with the mechanism.
func offers(frame []byte, mechanism string) bool {
	if len(frame) < headerSize+4 || frame[0] != msgAuthentication || binary.BigEndian.Uint32(frame[headerSize:]) != authSASL {
		return false
	}
	return slices.Contains(bytesSplit(frame[headerSize+4:]), mechanism)
}

func bytesSplit(list []byte) []string {
	var names []string
	for name := range bytes.SplitSeq(list, []byte{0}) {
		names = append(names, string(name))
	}
	return names
}
