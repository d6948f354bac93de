package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
)

const (
	// What a client sends of a body that nobody wants is read on for so long, so
	// that it reads the answer before its connection breaks.
	lingerTime  = 3 * time.Second
	lingerBytes = 64 << 20
)

var errStopped = errors.New("the request has ended")

// Intake is a request's body as it comes from the client's connection. Each read
// has its time. The transport to the store may still read it when its request
// has ended: nothing may go on, or answer, before Stop has been called.
type Intake struct {
	body  io.ReadCloser // net/http's
	conn  *http.ResponseController
	pace  pace
	count prometheus.Counter

	reading  sync.Mutex // held by whoever reads
	deadline time.Time
	whole    atomic.Bool // it was read to its end
	stopped  atomic.Bool
	ours     atomic.Bool // reading was ended by us
	late     error       // because nothing came in time
}

// NewIntake returns the body of a request on a connection that may make no
// progress for limit. Its bytes are counted.
func NewIntake(r *http.Request, conn *http.ResponseController, limit time.Duration, count prometheus.Counter) *Intake {
	b := &Intake{body: r.Body, conn: conn, pace: pace{limit: limit}, count: count}
	b.whole.Store(r.Body == nil || r.Body == http.NoBody)
	return b
}

// Whole reports whether the body was read to its end.
func (b *Intake) Whole() bool { return b.whole.Load() }

// Read reads on, if there is progress in time.
func (b *Intake) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	begun := b.extend()
	if b.stopped.Load() { // after the deadline was set, or Stop's would be undone
		return 0, errStopped
	}
	n, err := b.body.Read(p)
	b.pace.took(n, begun)
	b.count.Add(float64(n))
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.whole.Store(true)
		// net/http waits for the client to hang up now, and would take the
		// deadline for that.
		_ = b.conn.SetReadDeadline(time.Time{})
	default:
		err = &refusal.BodyError{Err: err}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			b.ours.Store(true)
			if !b.stopped.Load() {
				b.late = err
			}
		}
	}
	return n, err
}

// Close does nothing: net/http closes the body.
func (b *Intake) Close() error { return nil }

// extend moves the deadline on, but not for each of many small reads.
func (b *Intake) extend() (now time.Time) {
	now = time.Now()
	if b.deadline.Sub(now) < b.pace.limit*3/4 {
		b.deadline = now.Add(b.pace.next())
		_ = b.conn.SetReadDeadline(b.deadline)
	}
	return now
}

// Stop ends the body: whoever still reads it is cut off, and when Stop returns
// nobody does. It reports whether somebody was, so that the connection is of no
// more use.
func (b *Intake) Stop() (cut bool) {
	b.stopped.Store(true)
	if b.reading.TryLock() {
		b.reading.Unlock()
		return false
	}
	b.Refuse()
	b.reading.Lock()
	defer b.reading.Unlock()
	return !b.whole.Load()
}

// Late returns the error of a body that did not come in time; nil if it did.
func (b *Intake) Late() error {
	b.Stop()
	return b.late
}

// Gone reports whether the context of the request has ended because the client
// has gone. Net/http ends it for a deadline of ours too.
func (b *Intake) Gone(ctx context.Context) bool { return ctx.Err() != nil && !b.ours.Load() }

// Refuse reads nothing more from the connection, now or when net/http wants to
// read away what is left.
func (b *Intake) Refuse() { _ = b.conn.SetReadDeadline(time.Unix(1, 0)) }

// Linger reads away what the client still sends, within bounds. The answer has
// been sent.
func (b *Intake) Linger() {
	_ = b.conn.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, b.body, lingerBytes)
}
