package lane

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Body is that of an answer. It is read by one goroutine, and closed by any. The
// connection is used again if it was read to its end before.
//
// Its bytes come from the connection itself, if Direct says so.
type Body struct {
	pool *Pool
	conn *conn
	stop func() bool // what ends it with the request's context
	left int64       // of a body whose length is known, else -1
	src  io.ReadCloser
	keep bool // the connection may be used again
	r    *http.Request

	deadline time.Time // of the next bytes

	mu   sync.Mutex
	done bool // the connection is no more this body's
	err  error
}

func newBody(p *Pool, c *conn, res *http.Response, stop func() bool) *Body {
	b := &Body{pool: p, conn: c, stop: stop, left: -1, src: res.Body, keep: !res.Close, r: res.Request}
	if res.ContentLength >= 0 && len(res.TransferEncoding) == 0 {
		b.left = res.ContentLength
	}
	if res.Body == http.NoBody {
		b.left = 0
	}
	if b.left == 0 {
		b.end(io.EOF)
	}
	return b
}

// Read reads on.
func (b *Body) Read(p []byte) (int, error) {
	if done, err := b.ended(); done {
		return 0, err
	}
	if b.left < 0 || b.conn.r.Buffered() == 0 { // of chunks, what is there may be the half of a line
		b.extend(0)
	}
	if b.left < 0 {
		n, err := b.src.Read(p)
		if err != nil {
			err = b.cause(err)
			b.end(err)
		}
		return n, err
	}
	n, err := b.conn.r.Read(p[:min(int64(len(p)), b.left)])
	return n, b.took(int64(n), err)
}

// cause is why reading ended: the end of the request's context, if that is it.
func (b *Body) cause(err error) error {
	if ctx := b.r.Context(); !errors.Is(err, io.EOF) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// extend moves the deadline on, but not for each of many small reads. Others may keep
// the store waiting for wait.
func (b *Body) extend(wait time.Duration) {
	limit := b.pool.config.ResponseTimeout
	if now := time.Now(); limit > 0 && b.deadline.Sub(now) < limit*3/4+wait {
		b.deadline = now.Add(limit + wait)
		_ = b.conn.SetReadDeadline(b.deadline)
		if b.r.Context().Err() != nil { // its deadline was set before this one
			_ = b.conn.SetReadDeadline(past)
		}
	}
}

// took counts what was read of a body whose length is known.
func (b *Body) took(n int64, err error) error {
	b.left -= n
	if b.left == 0 {
		b.end(io.EOF)
		return nil
	}
	if err != nil {
		b.end(b.cause(unexpected(err)))
		_, err = b.ended()
	}
	return err
}

// ended tells whether no more is to be read, and why.
func (b *Body) ended() (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done, b.err
}

// end gives the connection back if all was read, or closes it. It is called by the
// reader.
func (b *Body) end(err error) {
	clean := err == io.EOF && b.keep && b.conn.r.Buffered() == 0 //nolint:errorlint // as Read returns it
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return
	}
	b.done, b.err = true, err
	if in := b.stop(); in && clean {
		if !b.deadline.IsZero() {
			_ = b.conn.SetReadDeadline(time.Time{})
		}
		b.pool.put(b.conn)
		return
	}
	b.conn.Close()
}

// Close ends it, and a Read that is under way.
func (b *Body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.done {
		b.done, b.err = true, net.ErrClosed
		b.stop()
		b.conn.Close()
	}
	return nil
}

// Direct returns what to read next so many bytes from, at most n, if that is the
// socket itself: the kernel can move them to another. Tell Took how many were read.
// It returns nil where there is no such thing, with TLS or chunks; or as long as
// there are bytes in the buffer, which have to be Read first. Wait is how long the
// other may take for them: so much more time they have.
func (b *Body) Direct(n int64, wait time.Duration) *io.LimitedReader {
	socket, ok := b.conn.Conn.(*net.TCPConn)
	if done, _ := b.ended(); !ok || done || b.left < 0 || b.conn.r.Buffered() > 0 {
		return nil
	}
	b.extend(wait)
	return &io.LimitedReader{R: socket, N: min(n, b.left)}
}

// Took counts n bytes that were read from what Direct returned, which ended with err,
// that of reading them.
func (b *Body) Took(n int64, err error) error { return b.took(n, err) }
