package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
	"github.com/fenceproxy/fenceproxy/locks"
)

const (
	// answerLimit is how long a lock service may take to answer everything that
	// a command asks.
	answerLimit = 5 * time.Second
	// visitTTL is what a session is kept for that the service does not hear of
	// any more. Nothing is held in it.
	visitTTL = 15 * time.Second
)

func (p *program) lock() *cobra.Command {
	return group(&cobra.Command{
		Use:   "lock",
		Short: "Show who holds a lock, give a restored lock service another issuer",
		Long: `Shows what a lock service (etcd, Redis, ZooKeeper) knows of a lock, and gives it
another issuer when it was restored or built anew. Its URL, --lock, reads as that
of exec: see 'fenceproxy exec --help'. Without one it is the environment's
` + lockEnv + `, which ps does not show.`,
	}, p.lockStatus(), p.lockRotate())
}

// lockFlag adds --lock to a command.
func lockFlag(cmd *cobra.Command) {
	cmd.Flags().String("lock", "", "URL of the lock service (default: the environment's "+lockEnv+", which ps does not show)")
}

// lockTarget reads the URL of a lock service: that of --lock, or where that is
// left out the environment's. It may also be an argument, as it had to be before
// there was the flag in all commands.
func lockTarget(cmd *cobra.Command, env func(string) string, args ...string) (*lockurl.Target, error) {
	text, err := cmd.Flags().GetString("lock")
	if err != nil {
		return nil, err
	}
	source := "--lock"
	switch {
	case len(args) > 0 && text != "":
		return nil, usage(cmd, "two lock services: one by --lock, one as an argument")
	case len(args) > 0:
		text, source = args[0], "URL"
	case text == "":
		text, source = env(lockEnv), lockEnv
	}
	if text == "" {
		return nil, usage(cmd, "no lock service: give --lock URL, or set %s", lockEnv)
	}
	target, err := lockurl.Parse(text)
	if err != nil {
		return nil, usage(cmd, "%s is not the URL of a lock service: %v", source, err)
	}
	return target, nil
}

// withLockService opens a lock service for what use asks of it.
func withLockService(ctx context.Context, target *lockurl.Target, use func(locks.Locker) error) error {
	logging.Disable() // what is wrong with Redis is in the errors
	service, err := target.Open(ctx, visitTTL)
	switch {
	case err == nil:
	case lockurl.Denied(err):
		return fail(exitDenied, "%w; check user and password in the URL", err)
	default:
		return fail(exitUnreachable, "%w; check the URL, and that the server runs", err)
	}
	defer func() { _ = service.Close() }() // nothing is held
	return use(service.Locker)
}

// asked has a lock service answer one question, in time, and gives its error an
// exit code.
func asked[T any](ctx context.Context, target *lockurl.Target, question func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	answer, err := question(limited)
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, locks.ErrIssuerChanged):
		err = fail(exitFailure, "%w: somebody was faster; nothing was changed", err)
	case lockurl.Denied(err):
		err = fail(exitDenied, "the lock service at %s refuses: %w; check user and password in the URL, and what that user may do", target, err)
	case limited.Err() != nil && ctx.Err() == nil:
		err = fail(exitUnreachable, "no answer from the lock service at %s within %v: %w; check the URL, and that the server runs", target, answerLimit, err)
	default:
		err = fail(exitUnreachable, "the lock service at %s: %w; check the URL, and that the server runs", target, err)
	}
	return answer, err
}

// shownID is an id of a lock service in a table. Others may have written it.
func shownID(id string) string {
	if guard.ValidateID(id) != nil {
		return strconv.Quote(id)
	}
	return shown(id)
}

func modeName(mode guard.Mode) string {
	switch mode {
	case guard.Exclusive:
		return "exclusive"
	case guard.Shared:
		return "shared"
	default:
		return "unknown"
	}
}

// isLockURL tells a URL that stands where a name should.
func isLockURL(text string) bool {
	if !strings.Contains(text, "://") {
		return false
	}
	_, err := lockurl.Parse(text)
	return err == nil
}
