package redislock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errRefused = errors.New("connection refused")

// retryUntil sends a request that is refused until back, for at most within.
func retryUntil(t *testing.T, prompt bool, back, within time.Duration) error {
	t.Helper()
	var err error
	synctest.Test(t, func(t *testing.T) {
		l := &Locker{config: Config{TTL: within}, prompt: prompt}
		begun := time.Now()
		_, err = l.retry(t.Context(), t.Context(), within, func(ctx context.Context) (reply, error) {
			if ctx.Err() != nil {
				return reply{}, ctx.Err()
			}
			if time.Since(begun) < back {
				return reply{}, errRefused
			}
			return reply{}, nil
		})
		l.wg.Wait()
	})
	return err
}

// TestRetryForLong: a Redis that was away for long is found when it is back, and
// one that is not has its own error told.
func TestRetryForLong(t *testing.T) {
	t.Parallel()
	for _, prompt := range []bool{false, true} {
		if err := retryUntil(t, prompt, 10*time.Minute, 15*time.Minute); err != nil {
			t.Errorf("prompt %v: Redis is back, but: %v", prompt, err)
		}
		for range 20 {
			if err := retryUntil(t, prompt, time.Hour, 15*time.Second); err == nil || !strings.Contains(err.Error(), errRefused.Error()) {
				t.Fatalf("prompt %v: %v, want %v", prompt, err, errRefused)
			}
		}
	}
}
