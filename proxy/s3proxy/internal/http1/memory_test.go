package http1

import (
	"bytes"
	"io"
	"net"
	"sync"
	"time"
)

// memory is a connection on which a client has sent all that it will, and of which what
// is answered is kept. Nothing of it gets lost, however it ends.
type memory struct {
	in     *bytes.Reader
	piece  int // the most that a Read returns
	mu     sync.Mutex
	out    bytes.Buffer
	once   sync.Once
	closed chan struct{}
}

func newMemory(in []byte, piece int) *memory {
	return &memory{in: bytes.NewReader(in), piece: piece, closed: make(chan struct{})}
}

func (m *memory) Read(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.closed:
		return 0, net.ErrClosed
	default:
		return m.in.Read(p[:min(len(p), m.piece)])
	}
}

func (m *memory) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out.Write(p)
}

func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

// answers is what was answered until the connection was closed.
func (m *memory) answers() []byte {
	<-m.closed
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out.Bytes()
}

func (*memory) LocalAddr() net.Addr              { return new(net.TCPAddr) }
func (*memory) RemoteAddr() net.Addr             { return new(net.TCPAddr) }
func (*memory) SetDeadline(time.Time) error      { return nil }
func (*memory) SetReadDeadline(time.Time) error  { return nil }
func (*memory) SetWriteDeadline(time.Time) error { return nil }

// memories is a listener of such connections.
type memories struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func newMemories() *memories {
	return &memories{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *memories) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memories) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*memories) Addr() net.Addr { return new(net.TCPAddr) }

var _ io.Closer = (*memories)(nil)
