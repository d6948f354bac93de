package http1

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// gone reports whether the client has hung up, or will send nothing more, whatever it
// has sent before.
func gone(socket net.Conn) bool {
	hungUp := false
	control(socket, func(fd int) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // it is the kernel's own number
		_, err := unix.Poll(polled, 0)
		hungUp = err == nil && polled[0].Revents != 0
	})
	return hungUp
}

// owes reports whether the client has not taken all that was sent to it.
func owes(socket net.Conn) bool {
	owed := true // as a connection that is closed does
	control(socket, func(fd int) {
		left, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
		owed = err != nil || left > 0
	})
	return owed
}

func control(socket net.Conn, ask func(fd int)) {
	if s, ok := socket.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { ask(int(fd)) })
		}
	}
}
