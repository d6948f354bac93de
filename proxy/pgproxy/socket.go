package pgproxy

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

const (
	keepAliveProbes = 3
	lingerTime      = time.Second
	lingerBytes     = 64 << 10
)

// keepAlive is what Config.KeepAlive says: idle as long, then probes in as long
// again.
func keepAlive(idle time.Duration) net.KeepAliveConfig {
	if idle < 0 {
		return net.KeepAliveConfig{}
	}
	return net.KeepAliveConfig{
		Enable: true, Idle: max(idle, time.Second),
		Interval: max(idle/keepAliveProbes, time.Second), Count: keepAliveProbes,
	}
}

// setSocket prepares a connection to a client or to the server. What the system
// does not know is left out: a session works without.
func setSocket(conn net.Conn, c *Config) {
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(keepAlive(c.KeepAlive))
	}
	setUserTimeout(conn, c.UserTimeout)
}

// pending says whether bytes have come that nobody has read.
func pending(conn net.Conn) (bool, error) {
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

// lingerClose closes a client's connection after a last message so that the
// message arrives: with unread bytes, close would reset the connection, and the
// client could lose what it has not read. It waits a second at most.
func lingerClose(conn net.Conn) error {
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

// isTemporary says whether Accept failed for want of something that others will
// give back, or for the client's sake alone.
func isTemporary(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
