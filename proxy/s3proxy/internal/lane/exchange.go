package lane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// MaxBody is the longest body in bytes of a request. So much goes into the buffers
// of a socket, so that nobody waits for a server that answers before it has read it.
const MaxBody = 64 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }} //nolint:gochecknoglobals // of requests

// Do sends a request of which URL, Header and body are what is sent, and returns the
// answer, whose Body is a *Body that has to be closed. The request is sent once; but
// if it has no body, as a read, and a connection that was idle breaks before any of
// the answer came, it is sent again on a new one.
//
// It tells a httptrace.ClientTrace when it asks for a connection, and when it has one.
// The error of a request of which nothing was sent is a net.OpError with Op "dial".
func (p *Pool) Do(r *http.Request, body []byte) (*http.Response, error) {
	if len(body) > MaxBody {
		return nil, fmt.Errorf("body of %d bytes is too long", len(body))
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	length := int64(len(body))
	if body == nil && r.Method != http.MethodPut {
		length = -1
	}
	data, err := appendHead((*buffer)[:0], r, length)
	if err != nil {
		return nil, err
	}
	data = append(data, body...)
	*buffer = data
	for again := false; ; again = true {
		c, err := p.connection(r.Context(), again)
		if err != nil {
			return nil, err
		}
		res, silent, err := p.exchange(c, r, func() error { return p.send(c, r, data) })
		if err == nil {
			return res, nil
		}
		if again || !silent || !c.used || r.Method != http.MethodGet || r.Context().Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}
	}
}

// fits is how much any socket takes at once, in bytes.
const fits = 16 << 10

// send sends a request in one piece.
func (p *Pool) send(c *conn, r *http.Request, data []byte) error {
	bounded := p.config.ResponseTimeout > 0 && len(data) > fits
	if bounded {
		_ = c.SetWriteDeadline(time.Now().Add(p.config.ResponseTimeout))
		if err := r.Context().Err(); err != nil { // its deadline was set before this one
			return err
		}
	}
	if _, err := c.Write(data); err != nil || !bounded {
		return err
	}
	_ = c.SetWriteDeadline(time.Time{})
	return r.Context().Err()
}

func (p *Pool) connection(ctx context.Context, fresh bool) (*conn, error) {
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(p.config.Addr)
	}
	c, err := p.get(ctx, fresh)
	if err == nil && trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c, Reused: c.used, WasIdle: c.used})
	}
	return c, err
}

// past is a deadline that ends what waits for a connection.
var past = time.Unix(1, 0) //nolint:gochecknoglobals // a constant

// exchange has a request sent by send, and reads the head of the answer. Silent says
// that none of it came.
func (p *Pool) exchange(c *conn, r *http.Request, send func() error) (res *http.Response, silent bool, err error) {
	ctx := r.Context()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(past) })
	defer func() {
		if err == nil {
			return
		}
		stop()
		c.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	early := false
	if err := send(); errors.Is(err, errAnswered) {
		early = true
	} else if err != nil {
		return nil, true, fmt.Errorf("send request: %w", err)
	}
	if p.config.ResponseTimeout > 0 {
		_ = c.SetReadDeadline(time.Now().Add(p.config.ResponseTimeout))
		if ctx.Err() != nil { // its deadline was set before this one
			return nil, false, ctx.Err()
		}
	}
	if _, err := c.r.Peek(1); err != nil {
		return nil, true, fmt.Errorf("read answer: %w", unexpected(err))
	}
	if res, err = readHead(c, r); err != nil {
		return nil, false, fmt.Errorf("read answer: %w", unexpected(err))
	}
	if p.config.ResponseTimeout > 0 {
		_ = c.SetReadDeadline(time.Time{})
		if ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
	}
	if early && res.StatusCode < http.StatusMultipleChoices {
		return nil, false, errUnfounded
	}
	res.Close = res.Close || early // the server waits for the rest
	res.Body = newBody(p, c, res, stop)
	return res, false, nil
}

// unexpected makes an error of an end that comes too early.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendHead appends the head of a request as it is sent, with a body of so many
// bytes, or -1 for none.
func appendHead(b []byte, r *http.Request, length int64) ([]byte, error) {
	b = append(append(b, r.Method...), ' ')
	if r.URL.RawPath != "" { // as it was signed
		b = append(b, r.URL.RawPath...)
	} else {
		b = append(b, r.URL.EscapedPath()...)
	}
	if r.URL.RawQuery != "" {
		b = append(append(b, '?'), r.URL.RawQuery...)
	}
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), r.Host...), "\r\n"...)
	for name, values := range r.Header {
		for _, value := range values {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				return nil, fmt.Errorf("%q cannot be sent in the header %q", value, name)
			}
			b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
		}
	}
	if length >= 0 {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), length, 10), "\r\n"...)
	}
	return append(b, "\r\n"...), nil
}
