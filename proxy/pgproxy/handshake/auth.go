package handshake

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
)

// Requests of an Authentication message.
//
// https://www.postgresql.org/docs/current/protocol-message-formats.html
const (
	authOk           = 0
	authCleartext    = 3
	authMD5          = 5
	authSASL         = 10
	authSASLContinue = 11
	authSASLFinal    = 12
)

// errRejected is a server's own refusal, which the client has been told.
var errRejected = errors.New("the server refused the client")

// authenticate relays the StartupMessage and what follows until the server has
// said AuthenticationOk, and returns the protocol that they speak. The proxy
// knows no passwords: the client and the server settle it between them, and what
// the server refuses it refuses in its own words.
func (h *Handshake) authenticate(ctx context.Context, s *startup) (protocol uint32, err error) {
	h.send(s.packet)
	protocol = s.version
	var buf []byte
	next := h.nextFrame
	for {
		if buf, err = next(ctx, buf); err != nil {
			return 0, err
		}
		next = h.nextFrame
		switch buf[0] {
		case msgAuthentication:
			code, err := h.relayRequest(ctx, s, buf)
			switch {
			case err != nil:
				return 0, err
			case code == authOk:
				return protocol, nil
			case code != authSASLFinal && !asks(code):
				next = h.nextOrAnswer
			}
			continue
		case msgNegotiateMinor:
			protocol = min(protocol, agreed(buf))
		case msgErrorResponse, msgNoticeResponse:
		default:
			return 0, refusal.Broken(fmt.Errorf("message of type %q before AuthenticationOk", buf[0]))
		}
		if _, err := h.client.Write(buf); err != nil {
			return 0, err
		}
		if buf[0] == msgErrorResponse {
			return 0, errRejected
		}
	}
}

// asks says whether the server waits for an answer to a request and says nothing
// before it has it.
func asks(code uint32) bool {
	return code == authCleartext || code == authMD5 || code == authSASL || code == authSASLContinue
}

// nextFrame reads the server's next message.
func (h *Handshake) nextFrame(_ context.Context, buf []byte) ([]byte, error) {
	frame, err := readFrame(h.upstream, buf)
	if err != nil {
		return nil, h.broken(frame, err)
	}
	return frame, nil
}

// nextOrAnswer reads the server's next message and meanwhile relays an answer of
// the client's, if there is one.
func (h *Handshake) nextOrAnswer(ctx context.Context, buf []byte) ([]byte, error) {
	stop := h.listen()
	frame, err := h.nextFrame(ctx, buf)
	late := stop()
	_ = h.client.SetReadDeadline(time.Time{})
	switch {
	case late != nil:
		return nil, late
	case ctx.Err() != nil: // perhaps its interruption was undone
		return nil, context.Cause(ctx)
	}
	return frame, err
}

// agreed is the protocol of a NegotiateProtocolVersion. Its number is the minor
// version in what is documented, and the whole one in what servers send.
func agreed(frame []byte) uint32 {
	if len(frame) < headerSize+4 {
		return protocol30
	}
	v := binary.BigEndian.Uint32(frame[headerSize:])
	if v>>16 == 0 {
		v |= protocol30
	}
	return max(v, protocol30)
}

// broken is what becomes of a server that does not go on. A server that cannot
// fork says so in the form of protocol 2: an E and a text up to the end.
func (h *Handshake) broken(frame []byte, err error) error {
	if !errors.Is(err, errFrame) || frame[0] != msgErrorResponse {
		return refusal.Broken(err)
	}
	text, _ := io.ReadAll(io.LimitReader(h.upstream, maxOldErrorMessage))
	if _, err := h.client.Write(slices.Concat(frame, text)); err != nil {
		return err
	}
	return errRejected
}

// relayRequest relays an Authentication message and, if the server waits for
// one, the client's answer. It returns what was requested.
func (h *Handshake) relayRequest(ctx context.Context, s *startup, frame []byte) (code uint32, err error) {
	if len(frame) < headerSize+4 {
		return 0, refusal.Broken(fmt.Errorf("%w: Authentication of %d bytes", errFrame, len(frame)))
	}
	code = binary.BigEndian.Uint32(frame[headerSize:])
	stripped := false
	if code == authSASL && h.offered != nil && !h.sameCertificate() {
		if frame, stripped = withoutPlus(frame); len(frame) == headerSize+4+1 {
			return 0, refusal.Binding() // nothing is left
		}
	}
	if _, err := h.client.Write(frame); err != nil || !asks(code) {
		return code, err
	}
	answer, err := h.readAnswer()
	if err != nil {
		return 0, err
	}
	if stripped && deniesBinding(answer) {
		if err := h.withoutTLS(ctx, s); err != nil {
			return 0, err
		}
	}
	h.send(answer)
	return code, nil
}

// readAnswer reads a client's answer to an Authentication message; with an error,
// as much as there was of it.
func (h *Handshake) readAnswer() ([]byte, error) {
	frame, err := readFrame(h.client, nil)
	switch {
	case errors.Is(err, errFrame):
		return frame, refusal.Packet("invalid message length")
	case err != nil:
		return frame, err
	case frame[0] != msgAuthResponse:
		return frame, refusal.Packet("expected password response, got message type %d", frame[0])
	}
	return frame, nil
}

// send sends to the server. If that fails the server has closed the connection,
// and may have said why: that is read next.
func (h *Handshake) send(frame []byte) { _, _ = h.upstream.Write(frame) }

// passAnswer relays one answer of the client's, unless it is stopped before that.
func (h *Handshake) passAnswer() (err error) {
	defer h.recovered(&err)
	answer, err := h.readAnswer()
	switch {
	case err == nil:
		_, err = h.upstream.Write(answer)
	case len(answer) == 0 && errors.Is(err, os.ErrDeadlineExceeded):
		err = nil // stopped
	}
	return err
}

// listen relays one answer of the client's, if one comes before stop is called:
// with GSS and SSPI either side may be the next to speak. Without an answer
// nothing of the client's has been read.
func (h *Handshake) listen() (stop func() error) {
	done := make(chan error, 1)
	go func() {
		err := h.passAnswer()
		if err != nil {
			socket.Interrupt(h.upstream) // nobody will answer the server
		}
		done <- err
	}()
	return func() error {
		_ = h.client.SetReadDeadline(socket.LongAgo())
		return <-done
	}
}
