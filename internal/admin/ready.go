package admin

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// An answer is good for so long: however many ask, servers behind the proxy
	// are asked about once a second.
	defaultFresh = time.Second
	// A server that takes longer to answer counts as one that does not.
	defaultLimit = 2 * time.Second
)

// Readiness knows whether clients can be served. What it found out is good for
// a second.
type Readiness struct {
	check func(context.Context) error
	fresh time.Duration
	limit time.Duration

	ended atomic.Pointer[error] // why, from End on

	mu   sync.Mutex // held while check runs, so that all who ask share its answer
	at   time.Time
	last error
}

// NewReadiness asks check, which must return soon after its context ends; that
// is after two seconds. The lines of its error are reasons.
func NewReadiness(check func(context.Context) error) *Readiness {
	return &Readiness{check: check, fresh: defaultFresh, limit: defaultLimit}
}

// Ready returns nil if clients can be served, or why not.
func (r *Readiness) Ready(ctx context.Context) error {
	if why := r.ended.Load(); why != nil {
		return *why
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || time.Since(r.at) > r.fresh {
		// Not this caller's patience: the answer is for others too.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.limit)
		defer cancel()
		r.last = r.check(ctx)
		r.at = time.Now()
	}
	if why := r.ended.Load(); why != nil { // meanwhile
		return *why
	}
	return r.last
}

// Reset makes the next question be asked anew.
func (r *Readiness) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = time.Time{}
}

// End makes the answer why for good, and at once: nobody who asks later gets
// what was found before.
func (r *Readiness) End(why error) { r.ended.Store(&why) }

func (r *Readiness) serveHTTP(w http.ResponseWriter, request *http.Request) {
	if err := r.Ready(request.Context()); err != nil {
		answer(w, http.StatusServiceUnavailable, strings.TrimSpace(err.Error())+"\n")
		return
	}
	answer(w, http.StatusOK, "ok\n")
}
