package pgproxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/poll"
)

// bufferSize is how much is read at once.
const bufferSize = 16 << 10

var buffers = sync.Pool{New: func() any { //nolint:gochecknoglobals // sessions of all servers share what none of them needs now
	b := make([]byte, bufferSize)
	return &b
}}

// source reads messages from a connection into a buffer that it only has while
// there is something in it: thousands of sessions may idle.
type source struct {
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

func newSource(conn net.Conn) *source {
	s := &source{conn: conn}
	s.loop, _ = conn.(*poll.Conn)
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			s.raw, s.try = raw, s.readNow
		}
	}
	return s
}

// rest is what has been read and not been taken.
func (s *source) rest() []byte { return s.buf[s.start:s.end] }

// take takes n bytes of it.
func (s *source) take(n int) {
	s.start += n
	if s.start == s.end {
		s.release()
	}
}

// release gives the buffer back while nothing is in it.
func (s *source) release() {
	s.start, s.end = 0, 0
	if s.pooled != nil {
		buffers.Put(s.pooled)
	}
	s.pooled, s.buf = nil, nil
}

func (s *source) acquire() {
	if s.buf == nil {
		s.pooled = buffers.Get().(*[]byte)
		s.buf = *s.pooled
	}
}

// more reads at least one byte behind what is there, for a message of whose
// length at most limit bytes may be held.
func (s *source) more(limit int) error {
	if s.start > 0 {
		s.end = copy(s.buf, s.buf[s.start:s.end])
		s.start = 0
	}
	if s.end == len(s.buf) && s.buf != nil {
		if len(s.buf) >= limit {
			return errTooLong
		}
		s.grow(min(2*len(s.buf), max(limit, bufferSize)))
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

// errTooLong is a message of which more must be read than the limit allows.
var errTooLong = errors.New("message is too long")

// readNow is the body of more for a connection whose file descriptor can be
// read: it reports whether there was something.
func (s *source) readNow(fd uintptr) bool {
	s.acquire()
	for {
		s.n, s.err = unix.Read(int(fd), s.buf[s.end:])
		if !errors.Is(s.err, unix.EINTR) {
			break
		}
	}
	switch {
	case errors.Is(s.err, unix.EAGAIN):
		s.release()
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

func (s *source) grow(size int) {
	buf := make([]byte, size)
	s.end = copy(buf, s.buf[s.start:s.end])
	s.start = 0
	if s.pooled != nil {
		buffers.Put(s.pooled)
		s.pooled = nil
	}
	s.buf = buf
}

// now reads what is there, into an empty source, and reports whether there was
// something. It is for a step of the loop's.
func (s *source) now() (bool, error) {
	s.acquire()
	n, err := s.loop.TryRead(s.buf)
	if s.end = n; n == 0 {
		s.release()
	}
	return n > 0, err
}

// idle waits until there is something to read, unless something is left of what
// was. Until then, messages may be relayed by step on the loop.
func (s *source) idle(step func() bool) error {
	if s.loop == nil || s.end > s.start {
		return nil
	}
	return s.loop.Idle(step)
}

// header waits for the header of the next message.
func (s *source) header() error {
	for s.end-s.start < pgwire.HeaderSize {
		if err := s.more(bufferSize); err != nil {
			if s.end > s.start && errors.Is(err, io.EOF) {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// sink writes to a connection for two goroutines, one of which owns it: the other
// one's bytes never come into the middle of a message.
type sink struct {
	conn net.Conn

	mu   sync.Mutex
	open bool   // the owner is in the middle of a message
	owed []byte // of the other one, meanwhile
	err  error
}

// write writes for the owner; open says whether b ends in the middle of a message.
func (s *sink) write(b []byte, open bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if len(b) > 0 {
		if _, err := s.conn.Write(b); err != nil {
			s.err = err
			return err
		}
	}
	s.open = open
	if !open && len(s.owed) > 0 {
		_, s.err = s.conn.Write(s.owed)
		s.owed = nil
	}
	return s.err
}

// try is write as far as it can be done at once. It returns how much of b was
// written, and whether that is all that there is to do.
func (s *sink) try(b []byte) (n int, done bool) {
	conn, ok := s.conn.(*poll.Conn)
	if !ok || !s.mu.TryLock() {
		return 0, false
	}
	defer s.mu.Unlock()
	if s.err != nil || s.open || len(s.owed) > 0 {
		return 0, false
	}
	n, s.err = conn.TryWrite(b)
	s.open = n < len(b) // perhaps not in the middle of a message, but the owner will say
	return n, n == len(b) && s.err == nil
}

// insert writes whole messages between those of the owner.
func (s *sink) insert(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.open {
		s.owed = append(s.owed, b...)
		return nil
	}
	_, s.err = s.conn.Write(b)
	return s.err
}

// last writes the last message and ends the stream: what comes later is lost.
func (s *sink) last(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && !s.open {
		_, _ = s.conn.Write(b)
	}
	if s.err == nil {
		s.err = net.ErrClosed
	}
}
