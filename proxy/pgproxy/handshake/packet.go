package handshake

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
)

// Types of messages before the session begins.
const (
	msgAuthentication  = 'R'
	msgAuthResponse    = 'p' // password, SASL, GSS: told apart by what was asked
	msgErrorResponse   = 'E'
	msgNoticeResponse  = 'N'
	msgNegotiateMinor  = 'v'
	headerSize         = pgwire.HeaderSize
	maxHandshakeFrame  = 80 << 10 // the server's own bound of a token is 65,535 bytes
	maxOldErrorMessage = 30_000   // as in libpq
	growth             = 4 << 10  // how much is allocated ahead of what has come
)

// errFrame is a message with a length that cannot be.
var errFrame = errors.New("message of an impossible length")

// readFrame reads one message, header included, into buf[:0] and not a byte
// more. The length that it announces is bounded by maxHandshakeFrame, and memory
// is taken as its bytes come. With errFrame the header has been read.
func readFrame(r io.Reader, buf []byte) ([]byte, error) {
	frame, err := readN(r, buf[:0], headerSize)
	if err != nil {
		return frame, err
	}
	n := binary.BigEndian.Uint32(frame[1:])
	if n < 4 || n > maxHandshakeFrame {
		return frame, fmt.Errorf("%w: type %q, length %d", errFrame, frame[0], n)
	}
	frame, err = readN(r, frame, int(n)-4)
	return frame, socket.NoEOF(err)
}

// readN appends n bytes of r to buf.
func readN(r io.Reader, buf []byte, n int) ([]byte, error) {
	for n > 0 {
		chunk := min(n, growth)
		buf = slices.Grow(buf, chunk)
		got, err := io.ReadFull(r, buf[len(buf):len(buf)+chunk])
		buf = buf[:len(buf)+got]
		if err != nil {
			return buf, err
		}
		n -= chunk
	}
	return buf, nil
}
