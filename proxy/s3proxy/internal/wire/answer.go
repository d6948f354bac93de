package wire

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1"
)

// Answer is the answer to a request, on its way out. Each write has its time.
type Answer struct {
	*http1.Response

	pace  pace
	count prometheus.Counter

	status int
	before func()
	bare   bool // there is no body
}

// NewAnswer returns the answer to a request of a client that may make no progress for
// limit. Its bytes are counted. Before is called just before the header is sent.
func NewAnswer(w *http1.Response, r *http.Request, limit time.Duration, count prometheus.Counter, before func()) *Answer {
	return &Answer{Response: w, pace: pace{limit: limit}, count: count, before: before, bare: r.Method == http.MethodHead}
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
	a.Response.WriteHeader(status)
}

// Write sends a piece of the body, if there is progress in time.
func (a *Answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.bare {
		return len(p), nil
	}
	begun := a.extend()
	n, err := a.Response.Write(p)
	a.pace.took(n, begun)
	a.count.Add(float64(n))
	return n, err
}

// extend moves the deadline on, but not for each of many small writes.
func (a *Answer) extend() (now time.Time) {
	now = time.Now()
	a.SendWithin(a.pace.next())
	return now
}

// Flush sends what was written so far.
func (a *Answer) Flush() {
	a.WriteHeader(http.StatusOK)
	a.extend()
	a.Response.Flush()
}
