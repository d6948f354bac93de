package localserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// startAttempts is how often a server is started that finds its port taken by
// somebody who was faster.
const startAttempts = 5

// startLimit is how long a server may take until it answers; a loaded machine
// needs some seconds.
const startLimit = 60 * time.Second

// freePort returns a loopback port that nobody listens on at this moment.
func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func portTaken(err error) bool {
	return err != nil && strings.Contains(strings.ToLower(err.Error()), "address already in use")
}

// until polls check until it returns nil, p has ended, ctx ends or startLimit
// has passed.
func until(ctx context.Context, p *Process, log string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := attempt(ctx, check)
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("ended before it was ready: %w: %s", p.Err(), tail(log))
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w (%w): %s", context.Cause(ctx), err, tail(log))
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// attempt bounds one check: a client may wait for a server that has ended.
func attempt(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return check(ctx)
}

// tail is the end of a log, for error messages.
func tail(path string) string {
	const size = 2 << 10
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-size):]))
}
