package redislock

import (
	"context"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Acquisition lets a test send the requests of one acquisition in any order.
type Acquisition struct{ lease *lease }

// NewAcquisition makes one that Redis has not heard of.
func NewAcquisition(l *Locker, resource string) Acquisition {
	return Acquisition{l.newLease(resource, guard.Exclusive, 0)}
}

// Ask sends a request and returns the state that is answered.
func (a Acquisition) Ask(ctx context.Context, op string) (string, error) {
	r, err := a.lease.ask(ctx, ctx, time.Minute, op)
	return r.state, err
}
