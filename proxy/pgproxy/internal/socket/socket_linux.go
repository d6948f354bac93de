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
