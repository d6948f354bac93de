package socket

import (
	"errors"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"
)

const (
	keepAliveProbes = 3
	lingerTime      = time.Second
	lingerBytes     = 64 << 10
)

// Options are for how long a connection may be silent.
type Options struct {
	// KeepAlive is how long nothing may come by TCP before the other end is asked
	// whether it lives: three times, in as long again. Negative is never.
	KeepAlive time.Duration
	// UserTimeout is how long what was sent by TCP may stay unacknowledged (Linux).
	// Negative is the system's own limit.
	UserTimeout time.Duration
}

// Set prepares a connection to a client or to the server. What the system does
// not know is left out: a session works without.
func (o Options) Set(conn net.Conn) {
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(keepAlive(o.KeepAlive))
	}
	setUserTimeout(conn, o.UserTimeout)
}

// keepAlive is what Options.KeepAlive says.
func keepAlive(idle time.Duration) net.KeepAliveConfig {
	if idle < 0 {
		return net.KeepAliveConfig{}
	}
	return net.KeepAliveConfig{
		Enable: true, Idle: max(idle, time.Second),
		Interval: max(idle/keepAliveProbes, time.Second), Count: keepAliveProbes,
	}
}

// Peer names the other end of a client's connection in a log: by TCP its address;
// by a unix socket, where clients have none, unix and, on Linux, the process that
// connected, as in unix:4711.
func Peer(conn net.Conn) string {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return conn.RemoteAddr().String()
	}
	if pid := peerProcess(u); pid > 0 {
		return "unix:" + strconv.Itoa(pid)
	}
	return "unix"
}

// Pending says whether bytes have come that nobody has read.
func Pending(conn net.Conn) (bool, error) {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return false, nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false, err
	}
	n := 0
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, _ = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return n > 0, err
}

// LingerClose closes a client's connection after a last message so that the
// message arrives: with unread bytes, close would reset the connection, and the
// client could lose what it has not read. It waits a second at most.
func LingerClose(conn net.Conn) error {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return conn.Close()
	}
	_ = conn.SetReadDeadline(time.Now().Add(lingerTime))
	_, err := io.CopyN(io.Discard, conn, lingerBytes)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, conn.Close())
}

// IsTemporary says whether Accept failed for want of something that others will
// give back, or for the client's sake alone.
func IsTemporary(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// NoEOF makes the end of a connection inside a message an error that says so.
func NoEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
