package zkconn

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// What a request asks for (org.apache.zookeeper.ZooDefs.OpCode): those that an
// ensemble's leader has to see, the renewal of watches, the end of a session,
// and, made up, its opening.
const (
	opCreate          = 1
	opDelete          = 2
	opSetData         = 5
	opSync            = 9
	opMulti           = 14
	opCreateContainer = 19
	opSetWatches      = 101
	opClose           = -11
	opConnect         = -1000
)

// eventID is the id of a frame that answers no request.
const eventID = -1

// headSize is how much of a frame is looked at.
const headSize = 16

// wire is a connection that tells its session what the client on top of it does
// not: when a request that got an answer was sent, and how the session was
// opened. It also ends a connection whose server hangs, in time for the session
// to be renewed at another one; the client would only do so when the locks are
// lost.
type wire struct {
	net.Conn
	session *Session
	// Each is used by one goroutine at a time.
	out, in frames
	opened  bool // the client has sent the first frame
	greeted bool // and the server has answered it
	// renewed, if not nil, is closed when the client has sent its watches again.
	renewed chan struct{}
	passed  bool // answers need not wait for that any more

	mu      sync.Mutex
	pending []request // not answered, oldest first
	hung    *time.Timer
}

type request struct {
	id, op int32
	sent   time.Time
}

func newWire(s *Session, conn net.Conn) *wire {
	w := &wire{Conn: conn, session: s}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hung = time.AfterFunc(s.hangLimit(), w.cut)
	return w
}

// Write notes the requests in b before they leave.
func (w *wire) Write(b []byte) (int, error) {
	now := time.Now()
	w.out.feed(b, func(head []byte) {
		r := request{sent: now, op: opConnect}
		if w.opened && len(head) >= 8 {
			r.id, r.op = word(head, 0), word(head, 4)
		}
		w.opened = true
		if w.renewed != nil && r.op == opSetWatches && !closed(w.renewed) {
			close(w.renewed)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pending = append(w.pending, r)
		w.rearm()
	})
	return w.Conn.Write(b)
}

// Read notes which requests have been answered.
func (w *wire) Read(b []byte) (int, error) {
	held := w.renewed
	n, err := w.Conn.Read(b)
	if n > 0 && held != nil && !w.passed {
		w.hold(held)
		w.passed = true
	}
	w.in.feed(b[:n], w.answer)
	return n, err
}

// hold waits until the client has sent its watches again, on a connection that
// renews a session with some. The client puts the id of the last transaction
// that it has seen into that request, and while it does so it must not take an
// answer with a newer one, which is a data race of go-zookeeper 1.0.4.
func (w *wire) hold(renewed <-chan struct{}) {
	limit := time.NewTimer(min(w.session.hangLimit()/2, time.Second))
	defer limit.Stop()
	select {
	case <-renewed:
	case <-limit.C: // it has none: one more was on its way when the connection ended
	case <-w.session.Context().Done():
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (w *wire) answer(head []byte) {
	if len(head) < 4 || w.greeted && word(head, 0) == eventID {
		return
	}
	r, ok := w.take(word(head, 0))
	switch {
	case !ok:
	case !w.greeted && len(head) >= headSize:
		w.greeted = true
		if w.session.watching() {
			w.renewed = make(chan struct{})
		}
		timeout := time.Duration(word(head, 4)) * time.Millisecond
		w.session.greeted(int64(binary.BigEndian.Uint64(head[8:])), timeout, r.sent) //nolint:gosec // an id
	default:
		w.session.answered(r)
	}
}

// take removes the request that id answers: the first one, the opening, has
// none.
func (w *wire) take(id int32) (request, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, r := range w.pending {
		if r.id == id || r.op == opConnect {
			w.pending = append(w.pending[:i], w.pending[i+1:]...)
			w.rearm()
			return r, true
		}
	}
	return request{}, false
}

// rearm has the connection cut if its oldest request stays without an answer.
// Callers hold mu.
func (w *wire) rearm() {
	if len(w.pending) == 0 {
		w.hung.Stop()
		return
	}
	w.hung.Reset(time.Until(w.pending[0].sent.Add(w.session.hangLimit())))
}

func (w *wire) cut() {
	w.session.config.Logger.Debug("server does not answer", keySession, w.session.Name())
	w.Conn.Close()
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.mu.Lock()
	w.hung.Stop()
	w.pending = nil
	w.mu.Unlock()
	return w.Conn.Close()
}

// frames cuts a stream into frames, four bytes of length in front of each, and
// keeps the first bytes of the one that is passing.
type frames struct {
	length []byte
	head   []byte
	left   int // bytes of the frame to come
}

// feed takes the next bytes of the stream. It calls each with the first bytes
// of every frame that is complete.
func (f *frames) feed(b []byte, each func(head []byte)) {
	for len(b) > 0 {
		if len(f.length) < 4 {
			n := min(4-len(f.length), len(b))
			f.length = append(f.length, b[:n]...)
			b = b[n:]
			if len(f.length) < 4 {
				return
			}
			f.left = int(word(f.length, 0))
			f.head = f.head[:0]
		}
		n := min(max(f.left, 0), len(b))
		f.head = append(f.head, b[:min(n, headSize-len(f.head))]...)
		f.left -= n
		b = b[n:]
		if f.left <= 0 {
			f.length = f.length[:0]
			each(f.head)
		}
	}
}

func word(b []byte, at int) int32 {
	return int32(binary.BigEndian.Uint32(b[at:])) //nolint:gosec // ids and codes, some below zero
}
