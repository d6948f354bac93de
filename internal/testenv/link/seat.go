package link

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// seat keeps the port of a link that refuses connections: a socket that is bound
// and does not listen. A port that nobody has would look free, and be somebody
// else's when the link is to be open again.
type seat int

// nobody has no seat.
const nobody seat = -1

// takeSeat takes a port that was just given up, whose connections may linger.
func takeSeat(addr string) (seat, error) {
	to, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return nobody, err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nobody, fmt.Errorf("open socket: %w", err)
	}
	s := seat(fd)
	// With SO_REUSEADDR, because of those that linger; without it from then on,
	// because of all others that have it (inet_csk_bind_conflict).
	if err = s.share(true); err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())})
	}
	if err == nil {
		err = s.share(false)
	}
	if err != nil {
		s.leave()
		return nobody, fmt.Errorf("keep port of %s: %w", addr, err)
	}
	return s, nil
}

func (s seat) share(share bool) error {
	value := 0
	if share {
		value = 1
	}
	return syscall.SetsockoptInt(int(s), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, value)
}

// listen listens on the port. The seat is left.
func (s seat) listen() (net.Listener, error) {
	defer s.leave() // the listener has a descriptor of its own
	if err := s.share(true); err != nil {
		return nil, err
	}
	if err := syscall.Listen(int(s), syscall.SOMAXCONN); err != nil {
		return nil, err
	}
	fd, err := syscall.Dup(int(s))
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "link")
	defer file.Close()
	return net.FileListener(file)
}

func (s seat) leave() {
	if s != nobody {
		_ = syscall.Close(int(s))
	}
}
