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
}

// NewSink returns one that writes to conn.
func NewSink(conn net.Conn) *Sink { return &Sink{conn: conn} }

// Write writes for the owner; open says whether b ends in the middle of a message.
func (s *Sink) Write(b []byte, open bool) error {
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
