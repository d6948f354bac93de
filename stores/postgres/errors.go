package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

// BlockedError is what a claim fails with that still waits for older
// transactions when its time is up. Nothing has changed; the claim can be made
// again, or with Config.Evict.
type BlockedError struct {
	// Resource is what was claimed.
	Resource string
	// Waited is how long the claim waited.
	Waited time.Duration
	// Blockers are those that were still there right after the claim gave up.
	Blockers []Blocker

	detail string
	err    error
}

// Error names who blocked when the claim gave up.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("fence: claim of %q waited %s for older transactions: %s", e.Resource, e.Waited, strings.ReplaceAll(e.detail, "\n", "; "))
}

// Unwrap returns the *pgconn.PgError.
func (e *BlockedError) Unwrap() error { return e.err }

// Outcome is NotApplied.
func (e *BlockedError) Outcome() guard.Outcome { return guard.NotApplied }

// cause is the reason of a refusal that the database pronounced: the sentinel,
// and the error that it came in.
type cause struct {
	reason error
	err    error
	said   bool // the reason says all that err does
}

func (c cause) Error() string {
	if c.said {
		return c.reason.Error()
	}
	return c.reason.Error() + ": " + c.err.Error()
}

func (c cause) Unwrap() []error { return []error{c.reason, c.err} }

// unsupportedError says what cannot be fenced.
type unsupportedError struct{ what string }

func (e unsupportedError) Error() string { return guard.ErrUnsupported.Error() + ": " + e.what }
func (e unsupportedError) Unwrap() error { return guard.ErrUnsupported }

func (w *work) unsupported(what string) error { return w.refuse(unsupportedError{what}) }

func (w *work) refuse(reason error) error {
	return &guard.RefusedError{Reason: reason, Token: w.grants[0].token}
}

// refusal makes a *guard.RefusedError of an error with which the database, or
// a protected table, refused a token; other errors stay as they are.
func (w *work) refusal(err error) error {
	var known *guard.RefusedError
	var pgErr *pgconn.PgError
	if errors.As(err, &known) || !errors.As(err, &pgErr) {
		return err
	}
	told, ok := carrier.RefusalBySQLState(pgErr.Code)
	if w.shared && pgErr.Code == readOnlyTransaction { // that is how a shared token's transaction begins
		told.Reason, ok = guard.ErrReadOnly, true
	}
	if !ok {
		return err
	}
	refused := &guard.RefusedError{Reason: cause{told.Reason, err, err.Error() == pgErr.Error()}, Token: w.grants[0].token}
	for _, g := range w.grants {
		if strings.Contains(pgErr.Message, `"`+g.token.Resource+`"`) {
			refused.Token = g.token
		}
	}
	refused.Mark, _ = carrier.ParseMarkDetail(pgErr.Detail)
	return refused
}

// refused ends every public call: it logs a refusal, and forgets that its
// token was claimed, for the database knows better.
func (s *Store) refused(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var r *guard.RefusedError
	if errors.As(err, &r) {
		s.claims.forget(r.Token)
		s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "refused",
			slog.String("resource", r.Token.Resource), slog.Any("presented", r.Token),
			slog.String("reason", r.Reason.Error()), slog.Any("mark", r.Mark))
	}
	return err
}

// notApplied says of an error that came before COMMIT was sent that nothing
// was written. A refusal says so itself.
func notApplied(doing string, err error) error {
	if doing != "" {
		err = fmt.Errorf("%s: %w", doing, err)
	}
	if guard.OutcomeOf(err) == guard.Refused {
		return err
	}
	return guard.WithOutcome(err, guard.NotApplied) // whatever became of another write that err tells of
}

// settled says what became of a message with a COMMIT in it that ended in err
// (I2): an error that the server reported without dying was instead of the
// commit; everything else may have come after it.
func (w *work) settled(doing string, err error) error {
	var unsent unsentError
	var pgErr *pgconn.PgError
	if guard.OutcomeOf(err) == guard.Refused || errors.As(err, &unsent) || errors.As(err, &pgErr) && !unsure(pgErr) {
		return notApplied(doing, err)
	}
	return guard.WithOutcome(fmt.Errorf("%s: %w", doing, err), guard.Unknown)
}

// unsure reports whether an error leaves open if the transaction was
// committed: the session died, a pooler speaks of its connection (class 08),
// or the server says so itself (40003, statement_completion_unknown).
func unsure(err *pgconn.PgError) bool {
	severity := err.SeverityUnlocalized
	if severity == "" {
		severity = err.Severity
	}
	return severity != "ERROR" || strings.HasPrefix(err.Code, "08") || err.Code == "40003"
}

type unexpectedTagError string

func (t unexpectedTagError) Error() string { return "unexpected reply " + string(t) }

// granted finds, in whatever language the server speaks, what the migrations
// grant to named roles only.
var granted = regexp.MustCompile(`\b(claim|evict|blockers|marks|fence)\b`)

// explain adds what to do to an error that means that the database is not set
// up for this store.
func (s *Store) explain(err error) error {
	switch {
	case isError(err, "3F000", "42883", "42P01"): // no such schema, function, table
		return fmt.Errorf("schema fence is not in this database, run \"fenceproxy migrate up\": %w", err)
	case isError(err, "42501") && granted.MatchString(err.Error()):
		return fmt.Errorf("run \"fenceproxy migrate up --grant %s\": %w", s.pool.Config().ConnConfig.User, err)
	}
	return err
}
