package link

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// seat keeps the port of a link as long as there is one: a socket that is bound, and
// listens or does not. A port that nobody has for a moment would look free to others.
type seat int

// takeSeat takes a port of 127.0.0.1.
func takeSeat(port int) (seat, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open socket: %w", err)
	}
	s := seat(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		s.leave()
		return 0, fmt.Errorf("take port %d: %w", port, err)
	}
	return s, nil
}

// listen listens on the port.
func (s seat) listen() (net.Listener, error) {
	if err := syscall.Listen(int(s), syscall.SOMAXCONN); err != nil {
		return nil, err
	}
	fd, err := syscall.Dup(int(s)) // which the listener takes
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "link")
	defer file.Close()
	return net.FileListener(file)
}

// refuse ends what listen began, but for the listener, which has to be closed.
func (s seat) refuse() error { return syscall.Shutdown(int(s), syscall.SHUT_RD) }

func (s seat) leave() { _ = syscall.Close(int(s)) }
