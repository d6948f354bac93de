package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Where a connection stands. Whoever gets it from idle or new to active has a request to
// answer, and whoever gets it to closed has ended it.
const (
	stateNew    int32 = iota // nothing was asked yet
	stateActive              // a request is being read or answered
	stateIdle                // between two
	stateClosed
)

// readSize is the size of a connection's buffer in bytes: a head and a small object.
const readSize = 8 << 10

// conn is the connection of a client. Its goroutine is the only one that reads heads.
type conn struct {
	net.Conn // with its TLS

	server *Server
	client Client
	socket net.Conn
	plain  io.ReaderFrom // the socket, to which the kernel can move bytes; nil: it cannot
	tls    *tls.ConnectionState
	since  time.Time
	remote string

	ctx    context.Context // of its requests; ends when the client has gone
	cancel context.CancelFunc

	r        *bufio.Reader
	left     int64  // so many bytes may be read of a head; < 0: any
	head     []byte // what was read of the one that is being read; nil: it is not kept
	after    string // the method of the request before
	state    atomic.Int32
	requests atomic.Uint64 // that have begun
	seen     uint64        // of them by watch

	reads, writes deadline
	broken        atomic.Bool // a write has failed
}

func newConn(ctx context.Context, s *Server, accepted net.Conn) *conn {
	c := &conn{Conn: accepted, server: s, socket: underTLS(accepted), since: time.Now(), remote: accepted.RemoteAddr().String()}
	c.plain, _ = accepted.(io.ReaderFrom) // not with TLS
	c.reads.set, c.writes.set = c.SetReadDeadline, c.SetWriteDeadline
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.r = bufio.NewReaderSize((*limited)(c), readSize)
	return c
}

// serve serves the connection until it ends.
func (c *conn) serve() {
	defer c.server.left(c)
	defer c.cancel()
	defer c.recovered()
	if !c.handshake() {
		return
	}
	c.reads.within(c.server.config.HeaderTimeout)
	for {
		r, err := c.next()
		if err != nil {
			c.decline(err)
			return
		}
		if !c.answer(r) || !c.rest() {
			return
		}
		c.reads.by(c.server.config.IdleTimeout, c.server.config.IdleTimeout/64)
	}
}

// recovered is the end of a handler that panics.
func (c *conn) recovered() {
	if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // what was panicked with, and nothing that wraps it
		c.server.config.Log.Error("a request's handler panicked", keyClient, c.remote, keyError, v, keyStack, string(debug.Stack()))
	}
}

// handshake is that of TLS, if the connection has it.
func (c *conn) handshake() bool {
	secure, ok := c.Conn.(*tls.Conn)
	if !ok {
		return true
	}
	limit := c.server.config.HeaderTimeout
	c.reads.within(limit)
	c.writes.within(limit)
	err := secure.HandshakeContext(c.ctx)
	if err == nil {
		state := secure.ConnectionState()
		c.tls = &state
		return true
	}
	if wrong := (tls.RecordHeaderError{}); errors.As(err, &wrong) && wrong.Conn != nil && looksLikeHTTP(wrong.RecordHeader) {
		_, _ = io.WriteString(wrong.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nThe client sent an HTTP request to an HTTPS server.\n")
	}
	c.server.config.Log.Debug("TLS handshake error", keyClient, c.remote, keyError, err) // anybody can do that
	return false
}

func looksLikeHTTP(record [5]byte) bool {
	switch string(record[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET":
		return true
	}
	return false
}

// begin is called with the first byte of a request. It reports false if the
// connection is closed.
func (c *conn) begin() bool {
	if !c.state.CompareAndSwap(stateIdle, stateActive) && !c.state.CompareAndSwap(stateNew, stateActive) {
		return false
	}
	c.requests.Add(1)
	return true
}

// rest is called behind an answer. It reports false if no other request is to come.
func (c *conn) rest() bool {
	c.state.Store(stateIdle)
	return !c.server.draining.Load() // after the state was set, for Shutdown looks at both the other way round
}

// endIdle ends a connection that is in a state: its own goroutine closes it, as TLS has
// something to say.
func (c *conn) endIdle(in int32) {
	if c.state.CompareAndSwap(in, stateClosed) {
		c.reads.past()
	}
}

// watch ends the requests of a client that has gone, if there has been one for a while.
func (c *conn) watch() {
	requests := c.requests.Load()
	if c.state.Load() != stateActive {
		return
	}
	if c.seen == requests && gone(c.socket) {
		c.cancel()
	}
	c.seen = requests
}

// limited reads from a connection, but for a head that does not end.
type limited conn

func (l *limited) Read(p []byte) (int, error) {
	c := (*conn)(l)
	if c.left < 0 { // of a body
		n, err := c.Read(p)
		if n > 0 {
			return n, nil // what ended behind it is of the next Read, if somebody needs more
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			c.cancel()
		}
		return n, err
	}
	if c.left == 0 {
		return 0, errLongHead
	}
	n, err := c.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if c.head != nil {
		c.head = append(c.head, p[:n]...)
	}
	return n, err
}

// write sends pieces.
func (c *conn) write(pieces ...[]byte) error {
	var err error
	if len(pieces) == 1 {
		_, err = c.Write(pieces[0])
	} else {
		buffers := net.Buffers(pieces)
		_, err = buffers.WriteTo(c.Conn)
	}
	if err != nil {
		c.broken.Store(true)
		c.cancel()
	}
	return err
}
