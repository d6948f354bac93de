package http1

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
)

// failing is a listener that fails so often with an error, and then with another.
type failing struct {
	net.Listener

	times atomic.Int64
	with  error
	last  atomic.Pointer[error]
}

func (l *failing) Accept() (net.Conn, error) {
	if l.times.Add(-1) >= 0 {
		return nil, l.with
	}
	conn, err := l.Listener.Accept()
	if last := l.last.Load(); last != nil {
		if err == nil {
			conn.Close()
		}
		return nil, *last
	}
	return conn, err
}

// A listener that is short of files is asked again; one that is broken ends all.
func TestAcceptFails(t *testing.T) {
	t.Parallel()
	var opened, closed atomic.Int64
	ln := &failing{Listener: listen(t), with: &net.OpError{Op: "accept", Err: syscall.EMFILE}}
	ln.times.Store(3)
	s := startOn(t, counted(func(_ *Response, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-r.Context().Done()
		}
	}, &opened, &closed), ln)
	c := s.dial(t)
	c.send(get)
	c.reply(http.MethodGet)
	c.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
	broken := errors.New("broken")
	ln.last.Store(&broken)
	if conn, err := net.Dial("tcp", s.addr); err == nil {
		defer conn.Close()
	}
	if err := s.ended(t); !errors.Is(err, broken) {
		t.Error(err)
	}
	c.rest()
	if opened.Load() != 1 || closed.Load() != 1 {
		t.Errorf("%d opened, %d closed", opened.Load(), closed.Load())
	}
}

// A server that is short of files ends all the same.
func TestAcceptFailsForEver(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *running){"shutdown": func(s *running) { s.Shutdown() }, "cut": func(s *running) { s.cut() }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln := &failing{Listener: listen(t), with: &net.OpError{Op: "accept", Err: syscall.EMFILE}}
			ln.times.Store(1 << 40)
			s := startOn(t, patient(nil), ln)
			until(t, "Accept is not called", func() bool { return ln.times.Load() < 1<<40 })
			end(s)
			if err := s.ended(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// A connection that was taken while the server ended is closed, and nobody waits for it.
func TestAcceptedTooLate(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *Server){"shutdown": (*Server).Shutdown, "cut": (*Server).close} {
		var opened, closed atomic.Int64
		s := New(counted(nil, &opened, &closed))
		end(s)
		accepted := newMemory(nil, 1)
		if c := s.open(t.Context(), accepted); c != nil || len(s.conns) != 0 || opened.Load() != 0 {
			t.Errorf("%s: it is served", name)
		}
		within(t, "it is open", accepted.closed)
	}
}
