package lane

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Config says where connections lead, and how long they live.
type Config struct {
	// Addr is the store's host:port.
	Addr string
	// TLS is that of connections; nil: none.
	TLS *tls.Config
	// Dial opens a connection.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// HandshakeTimeout bounds a handshake of TLS.
	HandshakeTimeout time.Duration
	// ResponseTimeout bounds the time from when a request was sent until the head
	// of its answer is there, and that in which nothing of a body goes, either way.
	// 0: it does not.
	ResponseTimeout time.Duration
	// IdleTimeout is how long a connection is kept that nobody needs, and MaxIdle
	// how many of them.
	IdleTimeout time.Duration
	MaxIdle     int
}

// Pool has connections to one store. It is safe for use by many goroutines.
type Pool struct {
	config Config

	mu    sync.Mutex
	idle  []*conn // the one that was used last is the last
	timer *time.Timer
}

// New returns a pool. It opens connections as they are needed.
func New(c Config) *Pool { return &Pool{config: c} }

// readSize is the size of a connection's buffer in bytes: a head and a small object.
const readSize = 8 << 10

// conn is a connection, used for one request at a time.
type conn struct {
	net.Conn

	raw   syscall.RawConn // of the socket; nil: there is none
	r     *bufio.Reader
	head  int64 // so many bytes may be read; 0: any
	used  bool  // for a request before this one
	since time.Time
}

// Read reads on, but for a head that does not end.
func (c *conn) Read(p []byte) (int, error) {
	if c.head == 0 {
		return c.Conn.Read(p)
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.head)])
	if c.head -= int64(n); c.head == 0 {
		return n, errLongHead
	}
	return n, err
}

// get returns a connection: one that is idle and still open, or a new one.
func (p *Pool) get(ctx context.Context, fresh bool) (*conn, error) {
	for !fresh {
		c := p.pop()
		if c == nil {
			break
		}
		if time.Since(c.since) < p.config.IdleTimeout && c.alive() {
			return c, nil
		}
		c.Close()
	}
	return p.dial(ctx)
}

func (p *Pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	c := p.idle[last]
	p.idle[last], p.idle = nil, p.idle[:last]
	return c
}

func (p *Pool) dial(ctx context.Context) (*conn, error) {
	socket, err := p.config.Dial(ctx, "tcp", p.config.Addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: socket}
	if s, ok := socket.(syscall.Conn); ok {
		if c.raw, err = s.SyscallConn(); err != nil {
			socket.Close()
			return nil, err
		}
	}
	if p.config.TLS != nil {
		secure := tls.Client(socket, p.config.TLS)
		ctx, cancel := context.WithTimeout(ctx, p.config.HandshakeTimeout)
		defer cancel()
		if err := secure.HandshakeContext(ctx); err != nil {
			socket.Close()
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: socket.RemoteAddr(), Err: err} // nothing was sent
		}
		c.Conn = secure
	}
	c.r = bufio.NewReaderSize(c, readSize)
	return c, nil
}

// alive reports whether a connection that nobody has used for a while is still
// open, and nothing has come on it that nobody asked for: a request that writes
// should not be the one to find out.
func (c *conn) alive() bool {
	if c.readable() {
		return false
	}
	if _, secure := c.Conn.(*tls.Conn); !secure {
		return true
	}
	// What TLS has read beyond the last answer is not in the socket any more.
	_ = c.SetReadDeadline(past)
	_, err := c.r.Peek(1)
	return errors.Is(err, os.ErrDeadlineExceeded) && c.SetReadDeadline(time.Time{}) == nil
}

// readable reports whether something has come from the server, or it has hung up.
func (c *conn) readable() bool { return c.r.Buffered() > 0 || c.arrived() }

// arrived is readable of what was not read from the socket yet.
func (c *conn) arrived() bool {
	if c.raw == nil {
		return false
	}
	some := true
	err := c.raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		some = err != syscall.EAGAIN && err != syscall.EWOULDBLOCK
		return true
	})
	return err != nil || some
}

// put takes a connection back whose answer was read to its end.
func (p *Pool) put(c *conn) {
	c.since, c.used = time.Now(), true
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) >= p.config.MaxIdle {
		c.Close()
		return
	}
	p.idle = append(p.idle, c)
	if p.timer == nil {
		p.timer = time.AfterFunc(p.config.IdleTimeout, p.sweep)
	}
}

// sweep closes what has been idle for too long, and comes again if there is more.
func (p *Pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := 0
	for old < len(p.idle) && time.Since(p.idle[old].since) >= p.config.IdleTimeout {
		p.idle[old].Close()
		old++
	}
	p.idle = append(p.idle[:0], p.idle[old:]...)
	clear(p.idle[len(p.idle):cap(p.idle)])
	p.timer = nil
	if len(p.idle) > 0 {
		p.timer = time.AfterFunc(p.config.IdleTimeout-time.Since(p.idle[0].since), p.sweep)
	}
}

// CloseIdle closes the connections that nobody uses.
func (p *Pool) CloseIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		c.Close()
	}
	p.idle = nil
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}
