package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/internal/demo"
	"github.com/fenceproxy/fenceproxy/internal/localserver"
)

// Exit codes. Those above 1 are of sysexits.h, except those of shells.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 64  // EX_USAGE
	ExitNotFound    = 66  // EX_NOINPUT
	ExitUnreachable = 69  // EX_UNAVAILABLE
	ExitUnknown     = 74  // EX_IOERR
	ExitHeld        = 75  // EX_TEMPFAIL
	ExitLost        = 76  // EX_PROTOCOL
	ExitDenied      = 77  // EX_NOPERM
	ExitSchema      = 78  // EX_CONFIG
	ExitConfig      = 78  // EX_CONFIG
	ExitNoExec      = 126 // as shells do
	ExitNoCommand   = 127 // as shells do
	ExitSignal      = 128 // + the signal's number, as shells do
)

func exitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: `Every command exits with one of:

    0  done
    1  failed: the message on standard error says why; also a demo that did not
       show what it must
   64  bad usage: an unknown command or flag, a missing argument or URL, or a
       question that nobody can answer (give --yes)
   66  not found: no such resource, no such config file (serve), or no such
       bucket, object or file (s3)
   69  unreachable: Postgres, the lock service or the S3 store does not answer,
       has no such database, or, where the demo is to start it, is not on this
       machine
   74  unknown: the answer to a write was lost, so nobody knows whether it was
       carried out (s3)
   75  not in time: somebody else holds the lock (exec --wait), older transactions
       are in the way of a claim (exec --claim-wait), or another write came first
       (s3 put, s3 rm)
   76  lost: the lease is over, and the command that ran under it was ended (exec)
   77  denied: a wrong password or key, a role that may not do this, or a
       resource that refuses the token
   78  schema: fence is not installed, is older than this program needs, or
       does not work on this server; config: a mistake in the file, or an
       address in it that cannot be listened at (serve); or something else
       that no fence can do without (doctor)
  126  the command is there and cannot be run (exec)
  127  the command is not there (exec)
  130  stopped by SIGINT (Ctrl-C)
  143  stopped by SIGTERM, and so on: 128 and the number of the signal

exec exits with the code of the command that it ran; 128+n if signal n ended it.

With an exit code other than 0, the last line of standard error says what is
wrong and what to do, unless the code is that of a command. Passwords are never
part of it.`,
	}
}

// CodedError is an error with the exit code that it means.
type CodedError struct {
	code int
	err  error
}

// Error is that of the error that has the code.
func (e *CodedError) Error() string { return e.err.Error() }

// Unwrap returns the error that has the code.
func (e *CodedError) Unwrap() error { return e.err }

// FinalError is how a command ended: a signal to this process does not change
// that. One to exec, say, was its program's.
type FinalError struct {
	Code int
	Err  error // nil if there is nothing to say: the code is the program's own
}

// Error is what is to say; where there is nothing, the code.
func (e *FinalError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *FinalError) Unwrap() error { return e.Err }

// Usage is the error of a command line that makes no sense.
func Usage(cmd *cobra.Command, format string, args ...any) error {
	return &CodedError{ExitUsage, fmt.Errorf("%s; see '%s --help'", fmt.Sprintf(format, args...), cmd.CommandPath())}
}

// Fail is an error with an exit code.
func Fail(code int, format string, args ...any) error {
	return &CodedError{code, fmt.Errorf(format, args...)}
}

// Tell writes err, if there is one, as one line to standard error, and returns
// the exit code.
func (p *Program) Tell(ctx context.Context, err error) int {
	if err == nil {
		return ExitOK
	}
	var final *FinalError
	if errors.As(err, &final) && final.Err == nil {
		return final.Code // the command has said what there is to say
	}
	code, text := Explain(ctx, err)
	fmt.Fprintln(p.Err, "fenceproxy: "+redact(strings.Join(strings.Fields(text), " ")))
	return code
}

// Explain finds the exit code of an error, and words that say what to do.
func Explain(ctx context.Context, err error) (int, string) {
	var bySignal SignalError
	var final *FinalError
	var coded *CodedError
	var connect *pgconn.ConnectError
	var pgErr *pgconn.PgError
	var unreachable *demo.UnreachableError
	var left *demo.LeftBehindError
	switch {
	case errors.As(err, &final):
		return final.Code, final.Error()
	case errors.As(err, &bySignal), errors.As(context.Cause(ctx), &bySignal):
		text := bySignal.Error()
		if errors.As(err, &left) {
			text += "; " + left.Error()
		}
		return ExitSignal + int(bySignal.Signal), text
	case errors.As(err, &coded):
		return coded.code, coded.Error()
	case errors.As(err, &connect):
		return explainConnect(connect)
	case errors.Is(err, localserver.ErrMissing):
		return ExitUnreachable, err.Error()
	case errors.As(err, &unreachable):
		return ExitUnreachable, err.Error() + "; check the address, and that the server runs"
	case errors.As(err, &pgErr):
		return explainPostgres(pgErr, err)
	}
	return ExitFailure, err.Error()
}

func explainConnect(err *pgconn.ConnectError) (int, string) {
	at := fmt.Sprintf("Postgres at %s:%d", err.Config.Host, err.Config.Port)
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return ExitUnreachable, fmt.Sprintf("cannot reach %s: %v; check the URL, and that the server runs", at, Innermost(err))
	}
	switch {
	case strings.HasPrefix(pgErr.Code, "28"): // invalid authorization
		return ExitDenied, fmt.Sprintf("%s refuses user %q: %s; check user and password in the URL", at, err.Config.User, pgErr.Message)
	case pgErr.Code == "42501":
		return ExitDenied, fmt.Sprintf("%s: %s", at, pgErr.Message)
	}
	return ExitUnreachable, fmt.Sprintf("%s: %s; check the URL", at, pgErr.Message)
}

// Innermost is the cause that a chain of wrapped network errors ends with;
// what stands before it repeats the address.
func Innermost(err error) error {
	for {
		switch e := err.(type) { //nolint:errorlint // walks the chain itself
		case interface{ Unwrap() error }:
			if e.Unwrap() == nil {
				return err
			}
			err = e.Unwrap()
		case interface{ Unwrap() []error }: // one for each address that was tried
			all := e.Unwrap()
			if len(all) == 0 {
				return err
			}
			err = all[len(all)-1]
		default:
			return err
		}
	}
}

// grantCommand is what lets a role claim.
const grantCommand = "fenceproxy migrate up --grant"

func explainPostgres(pgErr *pgconn.PgError, err error) (int, string) {
	text := err.Error()
	if pgErr.Detail != "" {
		text += "; " + pgErr.Detail
	}
	if pgErr.Hint != "" {
		text += "; " + pgErr.Hint
	}
	switch {
	case pgErr.Code == "42501" && strings.Contains(text, grantCommand): // a claim, which says what it lacks
		return ExitDenied, text
	case pgErr.Code == "42501":
		return ExitDenied, text + "; use the owner of the schema fence or a superuser; with migrate up --grant a role may claim, evict and read the marks"
	case strings.HasPrefix(pgErr.Code, "57P0"): // shut down, starting up, terminated
		return ExitUnreachable, text
	}
	return ExitFailure, text
}
