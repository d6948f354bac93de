package testenv

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// bytesCodec knows no protocol: client and server take turns.
type bytesCodec struct {
	mu      sync.Mutex
	pending bool // the client has spoken last
	lose    bool
}

func (c *bytesCodec) fromClient(r *bufio.Reader, request func(string) bool) ([]byte, error) {
	message, err := readSome(r)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.pending {
		c.pending = true
		c.lose = request("")
	}
	return message, nil
}

func (c *bytesCodec) fromServer(r *bufio.Reader) ([]byte, fate, error) {
	message, err := readSome(r)
	if err != nil {
		return nil, forward, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = false
	if c.lose {
		return nil, cut, nil
	}
	return message, forward, nil
}

// readSome reads what is there, at least one byte.
func readSome(r *bufio.Reader) ([]byte, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	message := make([]byte, r.Buffered())
	_, err := io.ReadFull(r, message)
	return message, err
}

// http2Codec reads frames (RFC 9113).
type http2Codec struct {
	client, server *frameReader
	preface        bool
	last           uint32 // the client's newest stream

	mu   sync.Mutex
	lose []uint32 // streams
}

func newHTTP2Codec() *http2Codec { return &http2Codec{} }

// frameReader is a Framer that keeps the bytes of the frame that it read.
type frameReader struct {
	*http2.Framer
	raw bytes.Buffer
}

func newFrameReader(r io.Reader) *frameReader {
	f := &frameReader{}
	f.Framer = http2.NewFramer(nil, io.TeeReader(r, &f.raw))
	return f
}

// next reads one frame, or a whole header block, and its bytes.
func (f *frameReader) next() (http2.Frame, []byte, error) {
	f.raw.Reset()
	frame, err := f.ReadFrame()
	return frame, slices.Clone(f.raw.Bytes()), err
}

func (c *http2Codec) fromClient(r *bufio.Reader, request func(string) bool) ([]byte, error) {
	if !c.preface {
		message := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(r, message); err != nil {
			return nil, err
		}
		if string(message) != http2.ClientPreface {
			return nil, errUnreadable
		}
		c.preface = true
		c.client = newFrameReader(r)
		c.client.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
		// The server may have allowed the client a larger table.
		c.client.ReadMetaHeaders.SetAllowedMaxDynamicTableSize(1 << 20)
		return message, nil
	}
	frame, raw, err := c.client.next()
	if err != nil {
		return nil, err
	}
	headers, ok := frame.(*http2.MetaHeadersFrame)
	if !ok || headers.StreamID <= c.last {
		return raw, nil // trailers are no new request
	}
	c.last = headers.StreamID
	if request(headers.PseudoValue("path")) {
		c.mu.Lock()
		c.lose = append(c.lose, headers.StreamID)
		c.mu.Unlock()
	}
	return raw, nil
}

func (c *http2Codec) fromServer(r *bufio.Reader) ([]byte, fate, error) {
	if c.server == nil {
		c.server = newFrameReader(r)
	}
	frame, raw, err := c.server.next()
	if err != nil {
		return nil, forward, err
	}
	switch frame.Header().Type {
	case http2.FrameHeaders, http2.FrameData, http2.FrameRSTStream:
		c.mu.Lock()
		defer c.mu.Unlock()
		if slices.Contains(c.lose, frame.Header().StreamID) {
			return nil, cut, nil
		}
	}
	return raw, forward, nil
}

// postgresCodec reads messages of the Postgres protocol, version 3
// (https://www.postgresql.org/docs/current/protocol-message-formats.html).
type postgresCodec struct {
	started bool // the startup message was read

	mu       sync.Mutex
	question bool   // the next answer is one byte, to SSLRequest or GSSENCRequest
	pending  []bool // a ReadyForQuery is to come for each; true: lose the reply
}

func newPostgresCodec() *postgresCodec { return &postgresCodec{} }

const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssEncRequest = 80877104
)

func (c *postgresCodec) fromClient(r *bufio.Reader, request func(string) bool) ([]byte, error) {
	if !c.started {
		return c.startup(r)
	}
	message, err := readMessage(r)
	if err != nil {
		return nil, err
	}
	switch message[0] {
	case 'Q', 'S', 'F':
		lose := request("")
		c.mu.Lock()
		c.pending = append(c.pending, lose)
		c.mu.Unlock()
	}
	return message, nil
}

// startup reads a message that has no type byte: length, code, the rest.
func (c *postgresCodec) startup(r *bufio.Reader) ([]byte, error) {
	head, err := r.Peek(8)
	if err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	if size < 8 || size > 1<<16 {
		return nil, errUnreadable
	}
	c.mu.Lock()
	switch binary.BigEndian.Uint32(head[4:]) {
	case sslRequest, gssEncRequest:
		c.question = true
	case cancelRequest:
		c.started = true // and the server will only hang up
	default:
		c.started = true
		c.pending = append(c.pending, false)
	}
	c.mu.Unlock()
	message := make([]byte, size)
	_, err = io.ReadFull(r, message)
	return message, err
}

func (c *postgresCodec) fromServer(r *bufio.Reader) ([]byte, fate, error) {
	first, err := r.Peek(1)
	if err != nil {
		return nil, forward, err
	}
	c.mu.Lock()
	question := c.question
	c.question = false
	c.mu.Unlock()
	if question {
		if first[0] != 'N' {
			return nil, forward, errUnreadable
		}
		message, err := readSome(r)
		return message, forward, err
	}
	message, err := readMessage(r)
	if err != nil {
		return nil, forward, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	lose := len(c.pending) > 0 && c.pending[0]
	const readyForQuery, copyInResponse = 'Z', 'G'
	switch {
	case message[0] == readyForQuery && lose:
		return nil, cut, nil
	case message[0] == readyForQuery && len(c.pending) > 0:
		c.pending = c.pending[1:]
	case lose && message[0] != copyInResponse: // that asks for the rest of the request
		return nil, swallow, nil
	}
	return message, forward, nil
}

// readMessage reads type, length, body.
func readMessage(r *bufio.Reader) ([]byte, error) {
	head, err := r.Peek(5)
	if err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size < 4 || size > 1<<30 {
		return nil, fmt.Errorf("message of %d bytes: %w", size, errUnreadable)
	}
	message := make([]byte, 1+size)
	_, err = io.ReadFull(r, message)
	return message, err
}
