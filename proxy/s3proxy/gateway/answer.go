package gateway

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// answer is the answer to a request, on its way out. Each write has its time.
type answer struct {
	http.ResponseWriter

	conn  *http.ResponseController
	limit time.Duration
	count prometheus.Counter

	deadline time.Time
	status   int    // 0 until the header was sent
	before   func() // called before the header is sent
	bare     bool   // there is no body: the answer to a HEAD
}

// WriteHeader sends the header.
func (a *answer) WriteHeader(status int) {
	if a.status != 0 {
		return
	}
	a.before()
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Write sends a piece of the body, if there is progress in time.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.bare {
		return len(p), nil
	}
	now := time.Now()
	if a.deadline.Sub(now) < a.limit*3/4 {
		a.deadline = now.Add(a.limit)
		_ = a.conn.SetWriteDeadline(a.deadline)
	}
	n, err := a.ResponseWriter.Write(p)
	a.count.Add(float64(n))
	return n, err
}

// Flush sends what was written so far.
func (a *answer) Flush() {
	a.WriteHeader(http.StatusOK)
	_ = a.conn.Flush()
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
