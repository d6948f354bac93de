package link

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// postgresCodec reads messages of the Postgres protocol, version 3
// (https://www.postgresql.org/docs/current/protocol-message-formats.html).
type postgresCodec struct {
	started bool // the startup message was read

	mu       sync.Mutex
	question bool   // the next answer is one byte, to SSLRequest or GSSENCRequest
	pending  []bool // a ReadyForQuery is to come for each; true: lose the reply
}

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
