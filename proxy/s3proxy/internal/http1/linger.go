package http1

import (
	"errors"
	"io"
	"os"
	"time"
)

// What a client sends of a body that nobody wants is read on as long as it comes, so that
// it reads the answer before its connection breaks.
const (
	lingerTime  = 3 * time.Second  // for each piece of it
	lingerLimit = 30 * time.Second // for all of it, whether another request can follow or not
	lingerBytes = 64 << 20         // of the body, and of what is behind it
)

// maxSkip is the length in bytes of a body that is read away for the sake of its
// connection.
const maxSkip = 256 << 10

// skip reads away, behind the answer, what is left of a body that nobody wants, so that
// another request can follow. It reports whether it came to its end.
func (c *conn) skip(b *body) bool {
	end := time.Now().Add(lingerLimit)
	for !b.whole.Load() {
		c.reads.within(min(lingerTime, time.Until(end)))
		if _, err := io.CopyN(io.Discard, b, readSize); err != nil && !b.whole.Load() {
			c.lingerOn(err, end)
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
	end := time.Now().Add(lingerLimit)
	if err := c.drain(b, end); !errors.Is(err, io.EOF) {
		c.lingerOn(err, end)
	}
}

// lingerOn is linger where nobody knows what is coming, and has not come in time if err
// says so.
func (c *conn) lingerOn(err error, end time.Time) {
	_ = c.closeWrite()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.drain(c.Conn, end)
	}
}

// drain reads r away, as much as there is time for, and returns what ended it: nil if it
// has had enough.
func (c *conn) drain(r io.Reader, end time.Time) error {
	for n := 0; n < lingerBytes; n += readSize {
		limit := time.Now().Add(lingerTime)
		if end.Before(limit) {
			limit = end
		}
		if err := c.SetReadDeadline(limit); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, r, readSize); err != nil {
			return err
		}
	}
	return nil
}

// closeWrite ends what is sent.
func (c *conn) closeWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
