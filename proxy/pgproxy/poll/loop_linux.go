package poll

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// batch is how many connections one turn of the loop serves at most.
const batch = 128

// Loop is a thread that waits for connections. It runs while it has some. The
// zero value is ready for use.
type Loop struct {
	mu    sync.Mutex
	epoll int
	wake  int             // an eventfd, for the end
	conns map[int32]*Conn // by file descriptor
	taken int32           // connections so far
	runs  bool
}

// Adopt makes a TCP or unix connection the loop's. It is closed, and goes on in
// the one returned, unless there is an error, as for want of file descriptors, or
// ok is false, for one of another kind: then it is what it was. No bytes may be
// under way in it, and no deadline.
func (l *Loop) Adopt(c net.Conn) (conn *Conn, ok bool, err error) {
	switch c.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return nil, false, nil
	}
	fd, err := duplicate(c)
	if err != nil {
		return nil, false, fmt.Errorf("duplicate a connection: %w", err)
	}
	conn = newConn(l, fd, c.LocalAddr(), c.RemoteAddr())
	if err := l.add(conn); err != nil {
		_ = unix.Close(fd)
		return nil, false, err
	}
	if err := c.Close(); err != nil { // it was closed
		return nil, false, errors.Join(fmt.Errorf("leave the runtime's poller: %w", err), conn.Close())
	}
	return conn, true, nil
}

func duplicate(c net.Conn) (fd int, err error) {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := raw.Control(func(old uintptr) {
		fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	})
	return fd, errors.Join(controlErr, err)
}

// interest is what the loop asks of a connection: to be told once when bytes
// come, urgent ones, or its end.
const interest = unix.EPOLLIN | unix.EPOLLPRI | unix.EPOLLRDHUP | unix.EPOLLET

func (l *Loop) add(c *Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.runs {
		if err := l.start(); err != nil {
			return err
		}
	}
	l.taken++
	c.number = l.taken
	l.conns[int32(c.fd)] = c //nolint:gosec // a file descriptor
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, c.fd, c.event(interest)); err != nil {
		l.remove(c)
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// event is what epoll is told of c. What it says of an earlier connection of the
// same file descriptor has another number.
func (c *Conn) event(events uint32) *unix.EpollEvent {
	return &unix.EpollEvent{Events: events, Fd: int32(c.fd), Pad: c.number} //nolint:gosec // a file descriptor
}

// start begins the loop.
func (l *Loop) start() (err error) {
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create: %w", err)
	}
	if l.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = unix.Close(l.epoll)
		return fmt.Errorf("eventfd: %w", err)
	}
	if err = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, l.wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(l.wake)}); err != nil { //nolint:gosec // a file descriptor
		_ = unix.Close(l.epoll)
		_ = unix.Close(l.wake)
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	l.conns, l.runs = make(map[int32]*Conn), true
	go l.run(l.epoll, l.wake)
	return nil
}

// remove forgets a connection, before its file descriptor is closed. The loop
// ends with the last one.
func (l *Loop) remove(c *Conn) {
	delete(l.conns, int32(c.fd)) //nolint:gosec // a file descriptor
	if len(l.conns) == 0 {
		_, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// run is the loop.
func (l *Loop) run(epoll, wake int) {
	var (
		events [batch]unix.EpollEvent
		conns  [batch]*Conn
	)
	for {
		n, err := unix.EpollWait(epoll, events[:], -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			panic(fmt.Sprintf("poll: epoll_wait: %v", err)) // a file descriptor of ours was closed by others
		}
		l.mu.Lock()
		if len(l.conns) == 0 {
			l.runs = false
			_ = unix.Close(epoll)
			_ = unix.Close(wake)
			l.mu.Unlock()
			return
		}
		for i := range max(n, 0) {
			e := &events[i]
			if c := l.conns[e.Fd]; c != nil && c.number == e.Pad {
				conns[i] = c
			}
			if int(e.Fd) == wake { // the last one went, and another came
				var b [8]byte
				_, _ = unix.Read(wake, b[:])
			}
		}
		l.mu.Unlock()
		for i := range max(n, 0) {
			if conns[i] != nil {
				conns[i].happened(events[i].Events)
			}
			conns[i] = nil
		}
	}
}

// want asks to be told when c can be written to, or no longer.
func (l *Loop) want(c *Conn, writable bool) error {
	events := uint32(interest)
	if writable {
		events |= unix.EPOLLOUT
	}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_MOD, c.fd, c.event(events)); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}
