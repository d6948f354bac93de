package testenv

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv/shiftclock"
)

// launchShifted starts a Redis with a clock of its own.
func launchShifted(bin string, c RedisConfig) (*RedisServer, func(), error) {
	if _, err := exec.LookPath("cc"); err != nil {
		return nil, nil, fmt.Errorf("cc, a C compiler: %w", errMissing)
	}
	dir, remove, err := scratch()
	if err != nil {
		return nil, nil, err
	}
	clock, err := shiftclock.New(dir)
	if err != nil {
		remove()
		return nil, nil, err
	}
	for attempt := 1; ; attempt++ {
		// env(1) becomes the server, so signals reach it.
		s, stop, err := tryRedis("env", c.conf(), c.args(), (*RedisServer).pong, slices.Concat(clock.Env(), []string{bin})...)
		if err == nil {
			s.clock = clock
			return s, func() { stop(); remove() }, nil
		}
		if !portTaken(err) || attempt == startAttempts {
			remove()
			return nil, nil, err
		}
	}
}

// ShiftClock makes the server take the time for d later than it is, or earlier.
// For those with RedisConfig.Clock.
func (s *RedisServer) ShiftClock(tb testing.TB, d time.Duration) {
	tb.Helper()
	if s.clock == nil {
		tb.Fatal("testenv: the clock of this redis cannot be shifted")
	}
	if err := s.clock.Shift(d); err != nil {
		tb.Fatalf("testenv: shift clock: %v", err)
	}
}
