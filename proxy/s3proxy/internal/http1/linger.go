package http1

import (
	"errors"
	"io"
	"time"
)

// What a client sends of a body that nobody wants is read on for so long, so that it
// reads the answer before its connection breaks.
const (
	lingerTime  = 3 * time.Second
	lingerBytes = 64 << 20
)

// maxSkip is the length in bytes of a body that is read away for the sake of its
// connection.
const maxSkip = 256 << 10

// skip reads away, behind the answer, what is left of a body that nobody wants, so that
// another request can follow. Each piece of it has its time. It reports whether it came
// to its end.
func (c *conn) skip(b *body) bool {
	for !b.whole.Load() {
		c.reads.within(lingerTime)
		if _, err := io.CopyN(io.Discard, b, readSize); err != nil && !b.whole.Load() {
			c.lingerOn()
			return false
		}
	}
	return true
}

// linger is before the end of a connection on which more of a body is coming: what has
// arrived and was not read when it is closed would take the answer away with it. The
// connection is whole until the body is: who relays it might cut both sides when one
// ends.
func (c *conn) linger(b *body) {
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
	if _, err := io.CopyN(io.Discard, b, lingerBytes); !errors.Is(err, io.EOF) {
		c.lingerOn()
	}
}

// lingerOn is linger where nobody knows what is coming.
func (c *conn) lingerOn() {
	_ = c.closeWrite()
	_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
}

// closeWrite ends what is sent.
func (c *conn) closeWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
