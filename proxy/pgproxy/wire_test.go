package pgproxy

import (
	"encoding/binary"
	"io"
	"net"
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/own"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/stream"
)

// What tests that speak by hand say and hear.
const (
	severityFatal      = "FATAL"
	stateAdminShutdown = "57P01"

	codeCancel = 80877102
	codeSSL    = 80877103
	codeGSSENC = 80877104
	protocol30 = 3 << 16
	minStartup = 8
	alpn       = "postgresql"

	tlsRecordHandshake = 0x16

	authOk        = 0
	authCleartext = 3
	authSASL      = 10
	authSASLFinal = 12
	scram         = "SCRAM-SHA-256"
	scramPlus     = "SCRAM-SHA-256-PLUS"

	bufferSize = stream.BufferSize // of a session

	checkStatement  = own.CheckStatement
	commitStatement = own.CommitStatement
)

var readyIdle = frame('Z', "I")

// readN reads n bytes.
func readN(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, n)
	n, err := io.ReadFull(r, b)
	return b[:n], err
}

// readFrame reads one message, header included.
func readFrame(r io.Reader) ([]byte, error) {
	header, err := readN(r, pgwire.HeaderSize)
	if err != nil {
		return header, err
	}
	n, _ := pgwire.Length(header)
	body, err := readN(r, n)
	return append(header, body...), err
}

// startupPacket is a StartupMessage with parameters by name and value.
func startupPacket(version uint32, params ...string) []byte {
	p := binary.BigEndian.AppendUint32(make([]byte, 4), version)
	for _, text := range params {
		p = append(append(p, text...), 0)
	}
	p = append(p, 0)
	binary.BigEndian.PutUint32(p, uint32(len(p)))
	return p
}

func request(code uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, minStartup), code)
}

func cancelPacket(key []byte) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(8+len(key)))
	return append(binary.BigEndian.AppendUint32(p, codeCancel), key...)
}

// frame is a message of a type.
func frame(kind byte, body ...string) []byte {
	b := strings.Join(body, "")
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(b))), b...)
}

func auth(code byte, data ...string) []byte {
	return frame('R', append([]string{"\x00\x00\x00" + string(code)}, data...)...)
}

// readStartup reads a StartupMessage, and SSLRequests, which it answers with N.
func readStartup(conn net.Conn) {
	for {
		b, err := readN(conn, 8)
		if err != nil {
			return
		}
		if binary.BigEndian.Uint32(b[4:]) != codeSSL {
			_, _ = readN(conn, int(binary.BigEndian.Uint32(b))-8)
			return
		}
		_, _ = conn.Write([]byte{'N'})
	}
}

// frames cuts whole messages off what has come, until f says that it is enough.
func frames(b []byte, f func(kind byte, body []byte) bool) (rest []byte, broken bool) {
	for len(b) >= pgwire.HeaderSize {
		n, ok := pgwire.Length(b)
		if !ok {
			return b, true
		}
		if len(b) < pgwire.HeaderSize+n {
			break
		}
		if !f(b[0], b[pgwire.HeaderSize:pgwire.HeaderSize+n]) {
			return nil, true
		}
		b = b[pgwire.HeaderSize+n:]
	}
	return b, false
}
