package http1

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Response is the answer to a request. It is an http.ResponseWriter, for one goroutine
// at a time.
//
// What is written is held back as long as it is short, and goes out with the end of the
// answer. An answer without a Content-Length is sent in chunks. The connection ends with
// one to an HTTP/1.0 client, and with one that begins before the request's body was read
// to its end, unless the body is short and its client is sure to send it: then what is
// left of it is read away behind the answer. There are no interim answers but 100
// Continue, which is sent when the body is first read.
type Response struct {
	conn   *conn
	body   *body // of the request; nil: none
	header http.Header
	is11   bool
	bare   bool        // has no body
	last   bool        // no other follows on this connection
	over   bool        // no more of the request's body is read, not even away
	paced  atomic.Bool // somebody else sees to the deadlines

	status  int
	length  int64 // of the body, as it was declared; < 0: it was not
	sent    int64 // of the body
	chunked bool
	held    *[]byte // nil: nothing

	mu       sync.Mutex // of what follows
	expected bool       // the client waits for leave to send its body
}

var errBroken = errors.New("the connection is broken")

// headerHint is how many lines the head of an answer may have before its map grows.
const headerHint = 14

// heldSize is how much of an answer is held back, in bytes.
const heldSize = 16 << 10

var heldPool = sync.Pool{New: func() any { b := make([]byte, 0, heldSize); return &b }} //nolint:gochecknoglobals // of connections

// Header is that of the answer, until it begins.
func (w *Response) Header() http.Header { return w.header }

// goOn lets the client send its body, if it waits.
func (w *Response) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expected {
		w.expected = false
		w.conn.writes.within(w.conn.client.SendTimeout)
		_ = w.conn.write([]byte("HTTP/1.1 100 Continue\r\n\r\n")) // whoever reads the body learns of it
	}
}

// Write sends a piece of the body, or holds it.
func (w *Response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.bare {
		return len(p), nil
	}
	if w.length >= 0 && int64(len(p)) > w.length-w.sent {
		return 0, http.ErrContentLength
	}
	put := w.send
	if w.chunked {
		put = w.chunk
	}
	if err := put(p); err != nil {
		return 0, err
	}
	w.sent += int64(len(p))
	return len(p), nil
}

// chunk sends a chunk of the body.
func (w *Response) chunk(p []byte) error {
	if len(p) == 0 {
		return nil // it would be the end
	}
	w.hold(append(strconv.AppendInt(nil, int64(len(p)), 16), "\r\n"...))
	if err := w.send(p); err != nil {
		return err
	}
	w.hold([]byte("\r\n"))
	return nil
}

// hold appends what is short to what is held.
func (w *Response) hold(p []byte) {
	if w.held == nil {
		w.held = heldPool.Get().(*[]byte)
		*w.held = (*w.held)[:0]
	}
	*w.held = append(*w.held, p...)
}

// send holds p, or sends it behind what is held.
func (w *Response) send(p []byte) error {
	held := 0
	if w.held != nil {
		held = len(*w.held)
	}
	if held+len(p) <= heldSize {
		w.hold(p)
		return nil
	}
	return w.flush(p)
}

// flush sends what is held, and p behind it.
func (w *Response) flush(p []byte) error {
	if w.conn.broken.Load() {
		return errBroken
	}
	if !w.paced.Load() {
		w.conn.writes.within(w.conn.client.SendTimeout)
	}
	switch {
	case w.held == nil && len(p) == 0:
		return nil
	case w.held == nil:
		return w.conn.write(p)
	}
	defer w.release()
	if len(p) == 0 {
		return w.conn.write(*w.held)
	}
	return w.conn.write(*w.held, p)
}

// release gives back the buffer of what was held.
func (w *Response) release() {
	if w.held != nil {
		heldPool.Put(w.held)
		w.held = nil
	}
}

// Flush sends what was written so far.
func (w *Response) Flush() {
	w.WriteHeader(http.StatusOK)
	_ = w.flush(nil) // whoever writes next learns of it
}

// ReadFrom sends what is read from r: the kernel moves it, if that is the rest of a
// socket's bytes, or a part, and the client has no TLS.
func (w *Response) ReadFrom(r io.Reader) (int64, error) {
	w.WriteHeader(http.StatusOK)
	part, ok := r.(*io.LimitedReader)
	if !ok || w.conn.plain == nil || w.bare || w.length < 0 || part.N > w.length-w.sent {
		return io.Copy(struct{ io.Writer }{w}, r)
	}
	if err := w.flush(nil); err != nil {
		return 0, err
	}
	n, err := w.conn.plain.ReadFrom(part)
	w.sent += n
	return n, err
}

// finish ends the answer. It reports whether another may follow.
func (w *Response) finish() (again bool) {
	if w.status == 0 {
		w.header.Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	}
	if w.chunked {
		w.hold([]byte("0\r\n\r\n"))
	}
	w.paced.Store(false)
	err := w.flush(nil)
	again = err == nil && !w.conn.broken.Load() && !w.last && (w.bare || w.chunked || w.sent == w.length)
	switch {
	case !w.unread() || w.conn.broken.Load():
	case again:
		return w.conn.skip(w.body)
	default:
		if !w.bare && !w.chunked && w.length < 0 { // the end of the connection is that of the answer
			_ = w.conn.closeWrite()
		}
		w.conn.linger(w.body)
	}
	return again
}

// Kernel reports whether the kernel can move what is sent, as it cannot with TLS.
func (w *Response) Kernel() bool { return w.conn.plain != nil }

// Owes reports whether the client has not taken all that was sent to it.
func (w *Response) Owes() bool { return owes(w.conn.socket) }

// SendWithin gives the writes that follow in this answer between 3/4 of limit and limit
// from now. It may be called by another goroutine while one writes.
func (w *Response) SendWithin(limit time.Duration) {
	w.paced.Store(true)
	w.conn.writes.within(limit)
}

// ReadWithin is the same for reads of the request's body.
func (w *Response) ReadWithin(limit time.Duration) { w.conn.reads.within(limit) }

// Refuse ends a Read of the request's body: nobody reads more of it, and the connection
// ends with the answer.
func (w *Response) Refuse() {
	w.over = true
	w.conn.reads.past()
}
