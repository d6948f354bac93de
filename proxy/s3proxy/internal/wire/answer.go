package wire

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Answer is the answer to a request, on its way out. Each write has its time.
type Answer struct {
	http.ResponseWriter

	conn  *http.ResponseController
	plain *Conn // of the client; nil: it has TLS
	pace  pace
	count prometheus.Counter

	deadline time.Time
	status   int
	before   func()
	bare     bool // there is no body
}

// NewAnswer returns the answer to a request on a connection that may make no
// progress for limit; plain is the same, or nil if it has TLS. Its bytes are
// counted. Before is called just before the header is sent.
func NewAnswer(w http.ResponseWriter, r *http.Request, conn *http.ResponseController, plain *Conn, limit time.Duration, count prometheus.Counter, before func()) *Answer {
	return &Answer{ResponseWriter: w, conn: conn, plain: plain, pace: pace{limit: limit}, count: count, before: before, bare: r.Method == http.MethodHead}
}

// Status is that of the answer, 0 until its header was sent.
func (a *Answer) Status() int { return a.status }

// Bare reports whether the answer has no body, as to a HEAD.
func (a *Answer) Bare() bool { return a.bare }

// WriteHeader sends the header.
func (a *Answer) WriteHeader(status int) {
	if a.status != 0 {
		return
	}
	a.before()
	a.status = status
	a.extend()
	a.ResponseWriter.WriteHeader(status)
}

// Write sends a piece of the body, if there is progress in time.
func (a *Answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.bare {
		return len(p), nil
	}
	begun := a.extend()
	n, err := a.ResponseWriter.Write(p)
	a.pace.took(n, begun)
	a.count.Add(float64(n))
	return n, err
}

// extend moves the deadline on, but not for each of many small writes.
func (a *Answer) extend() (now time.Time) {
	now = time.Now()
	if a.deadline.Sub(now) < a.pace.limit*3/4 {
		a.deadline = now.Add(a.pace.next())
		_ = a.conn.SetWriteDeadline(a.deadline)
	}
	return now
}

// Short says that no more than size bytes of body are to come, and all of them at
// once: they go out together with the header.
func (a *Answer) Short(size int64) {
	if a.plain != nil && size <= fewBytes {
		a.plain.Hold()
	}
}

// Flush sends what was written so far.
func (a *Answer) Flush() {
	a.WriteHeader(http.StatusOK)
	_ = a.conn.Flush()
	if a.plain != nil {
		a.plain.Release()
	}
}

// Unwrap is for http.ResponseController.
func (a *Answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
