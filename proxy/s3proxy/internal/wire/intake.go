package wire

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
)

var errStopped = errors.New("the request has ended")

// Intake is a request's body as it comes from the client's connection. Each read
// has its time. The transport to the store may still read it when its request
// has ended: nothing may go on, or answer, before Stop has been called.
type Intake struct {
	body  io.ReadCloser // the connection's
	w     *http1.Response
	pace  pace
	count prometheus.Counter

	reading sync.Mutex  // held by whoever reads
	whole   atomic.Bool // it was read to its end
	stopped atomic.Bool
	failed  error // because nothing came in time, or no more comes
}

// NewIntake returns the body of the request that w answers, of a client that may make no
// progress for limit. Its bytes are counted.
func NewIntake(w *http1.Response, r *http.Request, limit time.Duration, count prometheus.Counter) *Intake {
	b := &Intake{body: r.Body, w: w, pace: pace{limit: limit}, count: count}
	b.whole.Store(r.Body == nil || r.Body == http.NoBody)
	return b
}

// Whole reports whether the body was read to its end.
func (b *Intake) Whole() bool { return b.whole.Load() }

// Read reads on, if there is progress in time.
func (b *Intake) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.stopped.Load() { // the connection's time is another request's
		return 0, errStopped
	}
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
	default:
		err = &refusal.BodyError{Err: err}
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded) && !b.stopped.Load() {
			b.failed = err
		}
	}
	return n, err
}

// Close does nothing: what is left of it is the connection's.
func (b *Intake) Close() error { return nil }

// extend moves the deadline on, but not for each of many small reads.
func (b *Intake) extend() (now time.Time) {
	now = time.Now()
	b.w.ReadWithin(b.pace.next())
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
	b.w.Refuse()
	b.reading.Lock()
	defer b.reading.Unlock()
	return !b.whole.Load()
}

// Failed returns the error of a body that did not come in time, or of which the client
// has ended what it sends; nil if it came, or the connection broke. Somebody who failed
// to send it may still read the answer.
func (b *Intake) Failed() error {
	b.Stop()
	return b.failed
}
