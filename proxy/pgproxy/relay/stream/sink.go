package stream

import (
	"net"
	"sync"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/poll"
)

// Sink writes to a connection for two goroutines, one of which owns it: the other
// one's bytes never come into the middle of a message.
type Sink struct {
	conn net.Conn

	mu   sync.Mutex
	open bool   // the owner is in the middle of a message
	owed []byte // of the other one, meanwhile
	err  error

	lossy bool
}

// NewSink returns one that writes to conn.
func NewSink(conn net.Conn) *Sink { return &Sink{conn: conn} }

// NewLossySink returns one that writes to conn while it can, and then drops what it
// is given: whoever writes to it has to go on.
func NewLossySink(conn net.Conn) *Sink { return &Sink{conn: conn, lossy: true} }

// Write writes for the owner; open says whether b ends in the middle of a message.
func (s *Sink) Write(b []byte, open bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(b)
	s.open = open
	if !open && len(s.owed) > 0 {
		s.write(s.owed)
		s.owed = nil
	}
	return s.failed()
}

// write is for who holds mu.
func (s *Sink) write(b []byte) {
	if s.err == nil && len(b) > 0 {
		_, s.err = s.conn.Write(b)
	}
}

// failed is what whoever writes is told. It is for who holds mu.
func (s *Sink) failed() error {
	if s.lossy {
		return nil
	}
	return s.err
}

// Try is Write as far as it can be done at once. It returns how much of b was
// written, and whether that is all that there is to do.
func (s *Sink) Try(b []byte) (n int, done bool) {
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

// Insert writes whole messages between those of the owner.
func (s *Sink) Insert(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open && s.err == nil {
		s.owed = append(s.owed, b...)
		return nil
	}
	s.write(b)
	return s.failed()
}

// Last writes the last message and ends the stream: what comes later is lost.
func (s *Sink) Last(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && !s.open {
		_, _ = s.conn.Write(b)
	}
	if s.err == nil {
		s.err = net.ErrClosed
	}
}

// Pass relays the next n bytes, the rest of a message.
func Pass(src *Source, dst *Sink, n int) error {
	for n > 0 {
		if len(src.Rest()) == 0 {
			if err := src.More(BufferSize); err != nil {
				return socket.NoEOF(err)
			}
		}
		b := src.Rest()
		b = b[:min(len(b), n)]
		n -= len(b)
		if err := dst.Write(b, n > 0); err != nil {
			return err
		}
		src.Take(len(b))
	}
	return nil
}
