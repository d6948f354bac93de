package poll

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a connection of a Loop's. At any time one goroutine may read and one
// write.
type Conn struct {
	loop          *Loop
	fd            int
	number        int32 // among the loop's
	local, remote net.Addr

	// uses are the system calls under way, and closing once Close was called:
	// the file descriptor is closed when no more are, so that nobody meets
	// another one of that number.
	uses atomic.Int64

	in, out side

	// Of the reader, whoever that is at the time:
	drained bool  // the last read took all there was
	err     error // what the last read has found behind that, for the next

	// jagged: a read may take less than there is, or leave an end behind it that
	// is not told of any more. The other end has hung up, at least for what it
	// sends, or has sent urgent data, at which reads stop.
	jagged atomic.Bool

	// Under in.mu:
	hungUp   bool
	onHangUp func()
}

// closing is far above any number of uses.
const closing = 1 << 32

func newConn(l *Loop, fd int, local, remote net.Addr) *Conn {
	c := &Conn{loop: l, fd: fd, local: local, remote: remote}
	c.in.wake, c.out.wake = make(chan struct{}, 1), make(chan struct{}, 1)
	return c
}

// use begins a system call, and is false when the connection was closed.
func (c *Conn) use() bool {
	for {
		n := c.uses.Load()
		if n >= closing {
			return false
		}
		if c.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (c *Conn) unuse() {
	if c.uses.Add(-1) == closing {
		c.loop.mu.Lock()
		c.loop.remove(c)
		c.loop.mu.Unlock()
		_ = unix.Close(c.fd)
	}
}

// happened is called by the loop with what epoll says.
func (c *Conn) happened(events uint32) {
	if events&(unix.EPOLLPRI|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.jagged.Store(true)
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.hangsUp()
	}
	if events&(unix.EPOLLIN|unix.EPOLLPRI|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.in.happened()
	}
	if events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.out.happened()
	}
}

// Idle returns when there may be something to read, or with why there never will
// be. Until then, step is called whenever something has come, mostly on the loop:
// it must not block, and is to return true if it has taken all there was, as
// Drained says, and the caller need not go on. What it does happens before Idle
// returns, also with an error. The caller must not have left anything to be done.
func (c *Conn) Idle(step func() bool) error {
	s := &c.in
	for {
		s.mu.Lock()
		if err := s.end(); err != nil || c.err != nil {
			s.mu.Unlock()
			return err
		}
		if c.drained && !s.ready.Load() {
			s.step, s.mode = step, idle
			s.mu.Unlock()
			<-s.wake
			return s.ended()
		}
		s.mu.Unlock()
		if !step() {
			return nil
		}
	}
}

// Drained reports whether the last read took all that had come by then: it took
// less than it could have. Only for an other end that passes file descriptors
// over a unix socket, which no client of Postgres does, that is not quite so:
// reads stop there, and what it has sent behind may wait for its next bytes.
func (c *Conn) Drained() bool { return c.drained }

// TryRead reads what is there: none is no error.
func (c *Conn) TryRead(b []byte) (int, error) {
	if err := c.err; err != nil {
		return 0, err
	}
	if !c.use() {
		return 0, net.ErrClosed
	}
	defer c.unuse()
	c.in.ready.Store(false)
	for {
		n, errno := recv(c.fd, b)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			c.drained = true
			return 0, nil
		case errno != 0:
			c.err = os.NewSyscallError("read", errno)
			return 0, c.err
		case n == 0 && len(b) > 0:
			c.err = io.EOF
			return 0, c.err
		}
		c.drained = n < len(b) && !c.jagged.Load()
		return n, nil
	}
}

// Read is [net.Conn]'s.
func (c *Conn) Read(b []byte) (int, error) {
	for {
		if err := c.in.ended(); err != nil {
			return 0, err
		}
		n, err := c.TryRead(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		if err := c.in.wait(); err != nil {
			return 0, err
		}
	}
}

// TryWrite writes as much as can be written at once.
func (c *Conn) TryWrite(b []byte) (int, error) {
	if !c.use() {
		return 0, net.ErrClosed
	}
	defer c.unuse()
	c.out.ready.Store(false)
	done := 0
	for done < len(b) {
		n, errno := send(c.fd, b[done:])
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			return done, nil
		case errno != 0:
			return done, os.NewSyscallError("write", errno)
		default:
			done += n
		}
	}
	return done, nil
}

// Write is [net.Conn]'s.
func (c *Conn) Write(b []byte) (int, error) {
	if err := c.out.ended(); err != nil {
		return 0, err
	}
	done, err := c.TryWrite(b)
	if err != nil || done == len(b) {
		return done, err
	}
	return c.writeSlowly(b, done)
}

// writeSlowly writes what is left when the other end does not take it so fast.
func (c *Conn) writeSlowly(b []byte, done int) (int, error) {
	if !c.use() {
		return done, net.ErrClosed
	}
	defer c.unuse()
	if err := c.loop.want(c, true); err != nil {
		return done, err
	}
	for {
		n, err := c.TryWrite(b[done:])
		if done += n; err != nil || done == len(b) {
			return done, errors.Join(err, c.loop.want(c, false))
		}
		if err := c.out.wait(); err != nil {
			_ = c.loop.want(c, false)
			return done, err
		}
	}
}

// Close is [net.Conn]'s: who waits for the connection is woken.
func (c *Conn) Close() error {
	if !c.use() {
		return net.ErrClosed
	}
	defer c.unuse()
	for {
		n := c.uses.Load()
		if n >= closing {
			return net.ErrClosed
		}
		if c.uses.CompareAndSwap(n, n+closing) {
			break
		}
	}
	for _, s := range []*side{&c.in, &c.out} {
		s.change(func() { s.closed = true; s.stopTimer() })
	}
	return nil
}

// CloseWrite ends what is sent: the other end reads to the end.
func (c *Conn) CloseWrite() error {
	if !c.use() {
		return net.ErrClosed
	}
	defer c.unuse()
	return os.NewSyscallError("shutdown", unix.Shutdown(c.fd, unix.SHUT_WR))
}

// LocalAddr is [net.Conn]'s.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is [net.Conn]'s.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline is [net.Conn]'s.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline is [net.Conn]'s; it ends [Conn.Idle] too.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.in.setDeadline(t) }

// SetWriteDeadline is [net.Conn]'s.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.out.setDeadline(t) }

func recv(fd int, b []byte) (int, syscall.Errno) {
	return raw(unix.SYS_RECVFROM, fd, b, unix.MSG_DONTWAIT)
}

func send(fd int, b []byte) (int, syscall.Errno) {
	return raw(unix.SYS_SENDTO, fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}
