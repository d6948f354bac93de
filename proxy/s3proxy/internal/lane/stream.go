package lane

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// errAnswered says that the server answers before it has all of the body.
var errAnswered = errors.New("the server has answered")

// errUnfounded: what was not sent nobody has verified either, so the client must not
// be told that it is there.
var errUnfounded = errors.New("the server acknowledges a body of which it has not got all")

// Stream sends a request with a body of any length: what r.Body, which must be an
// io.WriterTo, writes, in pieces, and ContentLength bytes altogether. It closes it. The
// request is sent once. Where the server answers before it has the whole body, and
// where there is no TLS, what is left is not sent; if the answer is no error, Stream's is
// one.
//
// Otherwise it is as Do. The error of WriteTo is in that of Stream.
func (p *Pool) Stream(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	if r.ContentLength < 0 { // what follows the head would be taken for further requests
		return nil, errors.New("the length of the body is not known")
	}
	head, err := appendHead(make([]byte, 0, 1<<10), r, r.ContentLength)
	if err != nil {
		return nil, err
	}
	c, err := p.connection(r.Context(), false)
	if err != nil {
		return nil, err
	}
	res, _, err := p.exchange(c, r, func() error {
		out := &outlet{conn: c, r: r, limit: p.config.ResponseTimeout}
		if _, err := out.Write(head); err != nil {
			return err
		}
		if _, err := r.Body.(io.WriterTo).WriteTo(out); err != nil {
			return err
		}
		return out.done()
	})
	return res, err
}

// lookAgain is how soon a server is noticed that answers, and reads nothing more, while
// a piece is on its way to it.
const lookAgain = time.Second

// outlet is a connection to which a body is written. Each piece has its time.
type outlet struct {
	*conn

	r     *http.Request
	limit time.Duration // in which some bytes have to go; 0: none
}

// Write sends a piece, unless the server has answered.
func (o *outlet) Write(p []byte) (sent int, err error) {
	_, plain := o.Conn.(*net.TCPConn)
	for last := time.Now(); ; {
		if plain && o.readable() && !o.interim() {
			return sent, errAnswered
		}
		if err := o.allow(plain); err != nil {
			return sent, err
		}
		n, err := o.Conn.Write(p[sent:])
		if sent += n; err == nil {
			return sent, nil
		}
		if n > 0 {
			last = time.Now()
		}
		late := errors.Is(err, os.ErrDeadlineExceeded)
		switch {
		case late && plain && (o.limit == 0 || time.Since(last) < o.limit):
		case (plain || !late) && o.readable(): // it has hung up, but said why
			return sent, errAnswered
		default:
			return sent, err
		}
	}
}

// allow gives the next bytes their time. With TLS, a write that was late is the last.
func (o *outlet) allow(plain bool) error {
	wait := o.limit
	if plain && (wait == 0 || wait > lookAgain) {
		wait = lookAgain
	}
	if wait > 0 {
		_ = o.SetWriteDeadline(time.Now().Add(wait))
	}
	return o.r.Context().Err() // whose deadline was set before this one
}

// done lifts the deadline of the last piece.
func (o *outlet) done() error {
	_ = o.SetWriteDeadline(time.Time{})
	return o.r.Context().Err()
}

// interim reads answers away that are not the one that counts. It reports whether
// nothing else has come: of the last one there may be more to come.
func (o *outlet) interim() bool {
	in := o.conn.r
	if o.arrived() {
		if _, err := in.Peek(in.Buffered() + 1); err != nil { // it has hung up, or goes on and on
			return false
		}
	}
	for in.Buffered() > 0 {
		data, _ := in.Peek(in.Buffered())
		begin := []byte("HTTP/1.1 1")
		if n := min(len(data), len(begin)); !bytes.Equal(data[:n], begin[:n]) {
			return false
		}
		end := []byte("\r\n\r\n")
		at := bytes.Index(data, end)
		if at < 0 {
			return len(data) < in.Size()
		}
		_, _ = in.Discard(at + len(end))
	}
	return true
}
