package socket

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout is what Options.UserTimeout says.
func setUserTimeout(conn net.Conn, d time.Duration) {
	t, ok := conn.(*net.TCPConn)
	if !ok || d < 0 {
		return
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		ms := int(max(d.Milliseconds(), 1))
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, ms)
	})
}

// peerProcess is the process that connected, by its id here: 0 if that is not
// known, as of one in a container of its own.
func peerProcess(conn *net.UnixConn) int {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}

// HungUp reports whether the other end has hung up, at least for what it sends,
// though there may be unread bytes of it. It is false where that cannot be told.
func HungUp(conn net.Conn) (hungUp bool) {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // a file descriptor
		_, err := unix.Poll(polled, 0)
		hungUp = err == nil && polled[0].Revents != 0
	})
	return hungUp
}
