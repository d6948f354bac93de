package stream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/poll"
)

// Source reads messages from a connection into a buffer that it only has while
// there is something in it: thousands of sessions may idle.
type Source struct {
	conn net.Conn
	loop *poll.Conn      // conn, if a loop waits for it
	raw  syscall.RawConn // nil over TLS, and with a loop
	try  func(fd uintptr) bool
	// Of try:
	n   int
	err error

	pooled *[]byte
	buf    []byte // buf[start:end] has been read and not been taken
	start  int
	end    int
}

// NewSource returns an empty one.
func NewSource(conn net.Conn) *Source {
	s := &Source{conn: conn}
	s.loop, _ = conn.(*poll.Conn)
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			s.raw, s.try = raw, s.readNow
		}
	}
	return s
}

// Rest is what has been read and not been taken.
func (s *Source) Rest() []byte { return s.buf[s.start:s.end] }

// Take takes n bytes of it.
func (s *Source) Take(n int) {
	s.start += n
	if s.start == s.end {
		s.Release()
	}
}

// Release gives the buffer back while nothing is in it.
func (s *Source) Release() {
	s.start, s.end = 0, 0
	if s.pooled != nil {
		PutBuffer(s.pooled)
	}
	s.pooled, s.buf = nil, nil
}

func (s *Source) acquire() {
	if s.buf == nil {
		s.pooled = GetBuffer()
		s.buf = *s.pooled
	}
}

// More reads at least one byte behind what is there, for a message of whose
// length at most limit bytes may be held: if they are, its error is ErrTooLong.
func (s *Source) More(limit int) error {
	if s.start > 0 {
		s.end = copy(s.buf, s.buf[s.start:s.end])
		s.start = 0
	}
	if s.end == len(s.buf) && s.buf != nil {
		if len(s.buf) >= limit {
			return ErrTooLong
		}
		s.grow(min(2*len(s.buf), max(limit, BufferSize)))
	}
	if s.raw == nil || s.end > 0 {
		s.acquire()
		n, err := s.conn.Read(s.buf[s.end:])
		s.end += n
		if n > 0 {
			return nil
		}
		return orEOF(err)
	}
	// The runtime waits for bytes first, and a buffer is taken only when some are
	// there.
	if err := s.raw.Read(s.try); err != nil {
		return err
	}
	s.end += s.n
	return s.err
}

// ErrTooLong is a message of which more must be read than the limit allows.
var ErrTooLong = errors.New("message is too long")

// readNow is the body of More for a connection whose file descriptor can be
// read: it reports whether there was something.
func (s *Source) readNow(fd uintptr) bool {
	s.acquire()
	for {
		s.n, s.err = unix.Read(int(fd), s.buf[s.end:])
		if !errors.Is(s.err, unix.EINTR) {
			break
		}
	}
	switch {
	case errors.Is(s.err, unix.EAGAIN):
		s.Release()
		return false
	case s.err != nil:
		s.n, s.err = 0, fmt.Errorf("read: %w", s.err)
	case s.n <= 0:
		s.n, s.err = 0, io.EOF
	}
	return true
}

func orEOF(err error) error {
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

func (s *Source) grow(size int) {
	buf := make([]byte, size)
	s.end = copy(buf, s.buf[s.start:s.end])
	s.start = 0
	if s.pooled != nil {
		PutBuffer(s.pooled)
		s.pooled = nil
	}
	s.buf = buf
}

// Now reads what is there, into an empty source, and reports whether there was
// something. It is for a step of the loop's.
func (s *Source) Now() (bool, error) {
	s.acquire()
	n, err := s.loop.TryRead(s.buf)
	if s.end = n; n == 0 {
		s.Release()
	}
	return n > 0, err
}

// Drained reports whether the last read took all that had come by then. It is for
// a step of the loop's.
func (s *Source) Drained() bool { return s.loop.Drained() }

// Idle waits until there is something to read, unless something is left of what
// was. Until then, messages may be relayed by step on the loop.
func (s *Source) Idle(step func() bool) error {
	if s.loop == nil || s.end > s.start {
		return nil
	}
	return s.loop.Idle(step)
}

// Header waits for the header of the next message.
func (s *Source) Header() error {
	for s.end-s.start < pgwire.HeaderSize {
		if err := s.More(BufferSize); err != nil {
			if s.end > s.start && errors.Is(err, io.EOF) {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// Skip drops the next n bytes.
func (s *Source) Skip(n int) error {
	for n > 0 {
		if len(s.Rest()) == 0 {
			if err := s.More(BufferSize); err != nil {
				return socket.NoEOF(err)
			}
		}
		k := min(len(s.Rest()), n)
		s.Take(k)
		n -= k
	}
	return nil
}
