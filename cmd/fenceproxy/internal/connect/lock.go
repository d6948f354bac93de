package connect

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
	"github.com/fenceproxy/fenceproxy/locks"
)

const (
	// LockEnv has the URL where there is no --lock.
	LockEnv = "FENCE_LOCK"
	// MinTTL is the shortest TTL that a command asks for.
	MinTTL = time.Second
	// AnswerLimit is how long a lock service may take to answer everything that
	// a command asks.
	AnswerLimit = 5 * time.Second
	// visitTTL is what a session is kept for that the service does not hear of
	// any more. Nothing is held in it.
	visitTTL = 15 * time.Second
)

// LockFlag adds --lock to a command.
func LockFlag(cmd *cobra.Command) {
	cmd.Flags().String("lock", "", "URL of the lock service (default: the environment's "+LockEnv+", which ps does not show)")
}

// LockTarget reads the URL of a lock service: that of --lock, or where that is
// left out the environment's. It may also be an argument, as it had to be before
// there was the flag in all commands.
func LockTarget(cmd *cobra.Command, env func(string) string, args ...string) (*lockurl.Target, error) {
	text, err := cmd.Flags().GetString("lock")
	if err != nil {
		return nil, err
	}
	source := "--lock"
	switch {
	case len(args) > 0 && text != "":
		return nil, cli.Usage(cmd, "two lock services: one by --lock, one as an argument")
	case len(args) > 0:
		text, source = args[0], "URL"
	case text == "":
		text, source = env(LockEnv), LockEnv
	}
	if text == "" {
		return nil, cli.Usage(cmd, "no lock service: give --lock URL, or set %s", LockEnv)
	}
	target, err := lockurl.Parse(text)
	if err != nil {
		return nil, cli.Usage(cmd, "%s is not the URL of a lock service: %v", source, err)
	}
	return target, nil
}

// WithLockService opens a lock service for what use asks of it.
func WithLockService(ctx context.Context, target *lockurl.Target, use func(locks.Locker) error) error {
	logging.Disable() // what is wrong with Redis is in the errors
	service, err := target.Open(ctx, visitTTL)
	switch {
	case err == nil:
	case lockurl.Denied(err):
		return cli.Fail(cli.ExitDenied, "%w; check user and password in the URL", err)
	default:
		return cli.Fail(cli.ExitUnreachable, "%w; check the URL, and that the server runs", err)
	}
	defer func() { _ = service.Close() }() // nothing is held
	return use(service.Locker)
}

// Ask has a lock service answer one question, in time, and gives its error an
// exit code.
func Ask[T any](ctx context.Context, target *lockurl.Target, question func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, AnswerLimit)
	defer cancel()
	answer, err := question(limited)
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, locks.ErrIssuerChanged):
		err = cli.Fail(cli.ExitFailure, "%w: somebody was faster; nothing was changed", err)
	case lockurl.Denied(err):
		err = cli.Fail(cli.ExitDenied, "the lock service at %s refuses: %w; check user and password in the URL, and what that user may do", target, err)
	case limited.Err() != nil && ctx.Err() == nil:
		err = cli.Fail(cli.ExitUnreachable, "no answer from the lock service at %s within %v: %w; check the URL, and that the server runs", target, AnswerLimit, err)
	default:
		err = cli.Fail(cli.ExitUnreachable, "the lock service at %s: %w; check the URL, and that the server runs", target, err)
	}
	return answer, err
}
