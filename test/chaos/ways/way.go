package ways

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	pgstore "github.com/fenceproxy/fenceproxy/stores/postgres"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// Way is a way in, as one process uses it: with what it keeps between holders.
type Way interface {
	// Enter claims token and returns when that has returned, so that from then
	// on every lower number is kept out of the register.
	Enter(ctx context.Context, token guard.Token, r Register) (Tenure, error)
	// Close gives back what the way keeps.
	Close()
}

// Tenure is what a holder does between its claim and its end. It is used by one
// goroutine. Of every error guard.OutcomeOf tells what became of the act, as far
// as the client was told.
type Tenure interface {
	// Read reads the register under the token.
	Read(ctx context.Context) (history.State, error)
	// Write replaces what was read or written last with e, and returns what the
	// register holds by that. It calls pause where a program might be held up.
	Write(ctx context.Context, e history.Entry, pause func()) (history.State, error)
	// Leave ends it without a word to anybody.
	Leave()
}

// Parallel is a Tenure whose Write may be called by many goroutines at once.
type Parallel interface {
	Tenure
	// Parallel says so.
	Parallel()
}

// Remover is a Tenure of a register that can be deleted, which is a write as well.
type Remover interface {
	Tenure
	// Removable reports whether there is something that it can delete.
	Removable() bool
	// Remove deletes what was read or written last.
	Remove(ctx context.Context, pause func()) error
}

// Register is where a register is.
type Register struct {
	// Table is the suffix of the tables' names in Postgres.
	Table string `json:"table,omitempty"`
	// Key is the object's in S3.
	Key string `json:"key,omitempty"`
}

// reasons are the words for what an error was.
var reasons = []struct {
	err  error
	word string
}{
	{guard.ErrStale, "stale"},
	{guard.ErrDuplicate, "duplicate"},
	{guard.ErrForeign, "foreign"},
	{guard.ErrUnclaimed, "unclaimed"},
	{guard.ErrNoToken, "no token"},
	{guard.ErrMalformed, "malformed"},
	{guard.ErrUnsupported, "unsupported"},
	{guard.ErrReadOnly, "read only"},
	{context.DeadlineExceeded, "timeout"},
}

// Reason is why an act failed, in a word: that of a refusal, "blocked" for a claim
// that waited in vain, a SQLSTATE, or "".
func Reason(err error) string {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	var blocked *pgstore.BlockedError
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &blocked):
		return "blocked"
	case errors.As(err, &pg):
		return pg.Code
	}
	return ""
}

// answered is what an error of a bare client of Postgres tells: an ERROR of the
// server means that nothing was written, and so does whatever ended it before
// the last message that was needed for the write had been sent. (pgx's own
// SafeToRetry is wrong of a connection that closes while a reply is being read.)
func answered(err error, sent bool) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR" {
		return refusal(pg.Code, err)
	}
	if sent && !errors.Is(err, pgx.ErrNoRows) { // there was no row to write
		return guard.WithOutcome(err, guard.Unknown)
	}
	return guard.WithOutcome(err, guard.NotApplied)
}

// refusal is an ERROR with a SQLSTATE, which may be one of ours.
func refusal(state string, err error) error {
	if r, ok := carrier.RefusalBySQLState(state); ok {
		return errors.Join(&guard.RefusedError{Reason: r.Reason}, guard.WithOutcome(err, guard.Refused))
	}
	return guard.WithOutcome(err, guard.NotApplied)
}
