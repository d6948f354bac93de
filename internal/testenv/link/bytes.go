package link

import (
	"bufio"
	"io"
	"sync"
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
