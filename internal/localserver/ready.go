package localserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// startLimit is how long a server may take until it answers; a loaded machine
// needs some seconds.
const startLimit = 60 * time.Second

// grace is how long a signal may take to end a server.
const grace = 10 * time.Second

// errEnded is the end of a program with exit code 0.
var errEnded = errors.New("exit status 0")

// AwaitReady polls check until it returns nil. It gives up, with an error that
// shows the end of the log, when the program has ended, limit has passed, or
// ctx has ended, whose cause the error then wraps. A single check has a context
// of some seconds: a client may wait for a server that has ended.
func (p *Process) AwaitReady(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := attempt(ctx, check)
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("ended before it was ready: %w: %s", cmp.Or(p.Err(), errEnded), tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w (%w): %s", context.Cause(ctx), err, tail(p.log))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func attempt(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return check(ctx)
}

// tail is the end of a log, for error messages.
func tail(path string) string {
	const size = 4 << 10
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-size):]))
}
