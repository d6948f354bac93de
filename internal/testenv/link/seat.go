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
	if err := s.share(true); err != nil {
		s.leave()
		return 0, err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		s.leave()
		return 0, fmt.Errorf("take port %d: %w", port, err)
	}
	return s, nil
}

// share lets other sockets have the port that would not listen on it (SO_REUSEADDR).
// A link that listens again needs it, because of its connections that linger; while it
// does not listen it keeps others away who would, as all do that have it too.
func (s seat) share(share bool) error {
	value := 0
	if share {
		value = 1
	}
	return syscall.SetsockoptInt(int(s), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, value)
}

// listen listens on the port.
func (s seat) listen() (net.Listener, error) {
	if err := s.share(true); err != nil {
		return nil, err
	}
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
func (s seat) refuse() error {
	if err := s.share(false); err != nil {
		return err
	}
	return syscall.Shutdown(int(s), syscall.SHUT_RD)
}

func (s seat) leave() { _ = syscall.Close(int(s)) }
