// Package wait is pauses that end with a context.
package wait

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Sleep reports whether d passed before ctx ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Ended is the error of a ctx that has ended: it matches ctx.Err and the cause.
func Ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Pauses between attempts, which get longer. The zero Pauses begin at once.
type Pauses struct{ next time.Duration }

const (
	// MinPause is the first pause, on average.
	MinPause = 20 * time.Millisecond
	// MaxPause is what a pause grows to, on average.
	MaxPause = 500 * time.Millisecond
)

// Pause waits for half of a pause at least, and one and a half at most, so that
// those who failed together do not try again together. It reports whether that
// passed before ctx ended.
func (p *Pauses) Pause(ctx context.Context) bool {
	d := max(p.next, MinPause)
	p.next = min(2*d, MaxPause)
	return Sleep(ctx, d/2+rand.N(d)) //nolint:gosec // nobody gains from knowing when we retry
}
