package request

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

const (
	// MaxTries is how often a request that fails for no reason of its own is
	// sent.
	MaxTries = 4
	// MaxConflicts bounds how often a request is tried that the server refuses
	// in the state that it names.
	MaxConflicts = 10
)

// GiveUp waits before a request that failed with err is tried again, or returns
// what ends the tries.
func GiveUp(ctx context.Context, try int, err error) error {
	r, answered := ResponseOf(err)
	if hopeless := answered && final(r.StatusCode) && !Overtaken(err); hopeless || errors.Is(err, layout.ErrBadMark) || guard.OutcomeOf(err) == guard.Refused || try+1 >= MaxTries {
		return err
	}
	if ended := Pause(ctx, try); ended != nil {
		return errors.Join(ended, err)
	}
	return nil
}

// Pause waits before something is tried again, longer each time, up to a
// second.
func Pause(ctx context.Context, try int) error {
	limit := min(10*time.Millisecond<<min(try, 7), time.Second)
	timer := time.NewTimer(rand.N(limit)) //nolint:gosec // when, not what
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
