package serve

import (
	"fmt"
	"net"
	"os"
	"sync"
)

// handover is a listener that can leave its socket, with the clients that wait
// there, to another one. Its Accept then waits for Close, which is not to come
// before its server knows that it ends.
type handover struct {
	net.Listener

	left   chan struct{} // closed when it is left to another
	closed chan struct{}
	once   sync.Once
}

func newHandover(ln net.Listener) *handover {
	return &handover{Listener: ln, left: make(chan struct{}), closed: make(chan struct{})}
}

// Accept is that of net.Listener.
func (h *handover) Accept() (net.Conn, error) {
	conn, err := h.Listener.Accept()
	if err != nil {
		select {
		case <-h.left:
			<-h.closed
		default:
		}
	}
	return conn, err
}

// Close is that of net.Listener.
func (h *handover) Close() error {
	err := net.ErrClosed
	h.once.Do(func() {
		close(h.closed)
		err = h.Listener.Close()
	})
	return err
}

// second is another listener at the same socket, which stays when h is closed.
func (h *handover) second() (net.Listener, error) {
	withFile, ok := h.Listener.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("a %T cannot be handed over", h.Listener)
	}
	file, err := withFile.File()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return net.FileListener(file)
}

// leaveTo leaves the socket to the second one, which removes it in the end.
func (h *handover) leaveTo(second *handover) {
	if socket, ok := h.Listener.(*net.UnixListener); ok {
		socket.SetUnlinkOnClose(false)
		second.Listener.(*net.UnixListener).SetUnlinkOnClose(true)
	}
	close(h.left)
	_ = h.Listener.Close() // whatever it says, it is closed
}
