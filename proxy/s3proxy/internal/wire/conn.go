package wire

import (
	"io"
	"net"
	"sync"
	"time"
)

// heldSize is how much of an answer is held back, in bytes.
const heldSize = 16 << 10

var held = sync.Pool{New: func() any { b := make([]byte, 0, heldSize); return &b }} //nolint:gochecknoglobals // of connections

// Conn is a client's connection without TLS. A short answer goes out by one write,
// though net/http makes two of one that does not fit into its buffer; and what it is
// told to read from another socket the kernel moves, without a copy of it.
type Conn struct {
	*net.TCPConn

	limit   time.Duration
	writing sync.Mutex
	holding bool
	buffer  *[]byte // what is held; nil: nothing
}

// NewConn returns the connection, on which what was held may make no progress for
// limit when it is sent.
func NewConn(c *net.TCPConn, limit time.Duration) *Conn { return &Conn{TCPConn: c, limit: limit} }

// Hold holds back what is written from now on, until Release or there is too much of
// it.
func (c *Conn) Hold() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.holding = true
}

// Release sends what was held.
func (c *Conn) Release() {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.release(nil) // whoever reads or writes next learns of it
}

// Idle is Release at the end of an answer. What is written next has no deadline of
// this one: net/http sends a 100 Continue without setting any.
func (c *Conn) Idle() {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.release(nil) // as in Release
	_ = c.SetWriteDeadline(time.Time{})
}

// release sends what was held, and p behind it.
func (c *Conn) release(p []byte) error {
	c.holding = false
	if c.buffer == nil {
		return nil
	}
	buffer := c.buffer
	c.buffer = nil
	defer held.Put(buffer)
	_ = c.SetWriteDeadline(time.Now().Add(c.limit)) // net/http has lifted that of the answer
	pieces := net.Buffers{*buffer, p}
	_, err := pieces.WriteTo(c.TCPConn)
	return err
}

// Write sends p, or holds it.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if !c.holding {
		return c.TCPConn.Write(p)
	}
	if c.buffer == nil {
		c.buffer = held.Get().(*[]byte)
		*c.buffer = (*c.buffer)[:0]
	}
	if len(*c.buffer)+len(p) <= heldSize {
		*c.buffer = append(*c.buffer, p...)
		return len(p), nil
	}
	if err := c.release(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ReadFrom sends what is read from r: by the kernel, if that is a socket.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.release(nil); err != nil {
		return 0, err
	}
	return c.TCPConn.ReadFrom(r)
}

// CloseWrite ends what is sent.
func (c *Conn) CloseWrite() error {
	c.Release()
	return c.TCPConn.CloseWrite()
}

// Close closes the connection, when what was held is sent; but it does not wait for
// a write that is under way.
func (c *Conn) Close() error {
	if c.writing.TryLock() {
		_ = c.release(nil)
		c.writing.Unlock()
	}
	return c.TCPConn.Close()
}
