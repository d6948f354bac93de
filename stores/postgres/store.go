package pgstore

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Config is how a Store claims. The zero Config is safe.
type Config struct {
	// ClaimWait is how long a claim waits for the transactions of older
	// holders to end. Defaults to 10 s.
	ClaimWait time.Duration
	// Evict makes a claim end the sessions of older holders that are still
	// there after ClaimWait, and of those that merely idle in a transaction
	// with row locks; a further Claim ends those that have begun under an older
	// token since. It needs the eviction grant of the migrations. Defaults
	// to false: such a claim fails with a *BlockedError.
	Evict bool
	// Lean leaves out what goes with BEGIN: about a tenth faster, but tables
	// under Protect refuse its writes, since fence.token is not set, and an
	// old holder's transaction cannot be found by an eviction before its
	// check. Defaults to false.
	Lean bool
	// Logger gets one line for each refusal. Defaults to none.
	Logger *slog.Logger
}

// Store runs transactions on one database, each under a fencing token. It is
// safe for use by many goroutines.
type Store struct {
	pool    *pgxpool.Pool
	config  Config
	claims  claims
	checked atomic.Bool // the schema is the one that this program knows
}

// New returns a store on the database of pool, which stays the caller's. It
// asks nothing of the database yet: a missing schema is the error of the first
// claim.
func New(pool *pgxpool.Pool, c Config) (*Store, error) {
	if pool == nil {
		return nil, errors.New("pgstore: pool is nil")
	}
	if c.ClaimWait < 0 {
		return nil, errors.New("pgstore: ClaimWait is negative")
	}
	if c.ClaimWait == 0 {
		c.ClaimWait = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Store{pool: pool, config: c}, nil
}

// TxOptions are the options of one fenced transaction.
type TxOptions struct {
	// TxOptions is what the transaction begins with. A CommitQuery is refused:
	// the store commits. REPEATABLE READ and SERIALIZABLE are begun with their
	// snapshot taken, so SET TRANSACTION inside comes too late.
	pgx.TxOptions
	// Also are tokens for further resources that the transaction writes, one
	// per resource. All must be current for it to commit. A shared one among
	// them makes the whole transaction read-only.
	Also []guard.Token
	// TrackCommit learns the transaction's id with BEGIN, so that after a lost
	// reply to COMMIT another connection can ask what became of it: an outcome
	// that would be unknown becomes applied or not applied, if the server can
	// still be asked within 5 s and has not crashed or been replaced since.
	// Every such transaction uses up an id, those that only read included.
	// Ignored for shared tokens.
	TrackCommit bool
}

// InTx runs fn in a transaction that commits only if token is current: the
// check travels with COMMIT, in one message, and a newer claim waits for it.
// It claims the token first if this store has not yet (better call Claim right
// after the lock was granted, I9). It takes as many network round trips as the
// same transaction on bare pgx.
//
// fn gets the caller's ctx. If it returns an error or panics, the transaction
// is rolled back and nothing is written; its error stays visible to errors.Is
// and errors.As. fn must not end the transaction: COMMIT, ROLLBACK and their
// like are refused with guard.ErrUnsupported, savepoints are fine. tx must not
// be used after fn has returned.
//
// guard.OutcomeOf tells of any error whether the writes happened. A token that
// is not current matches guard.ErrStale or another sentinel of guard. Nothing
// is ever run twice: after a serialization failure (SQLSTATE 40001) or a
// deadlock (40P01), which errors.As finds as a *pgconn.PgError, it is for the
// caller to run the transaction again.
func (s *Store) InTx(ctx context.Context, token guard.Token, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return s.InTxOptions(ctx, token, TxOptions{}, fn)
}

// InTxOptions is InTx with options.
func (s *Store) InTxOptions(ctx context.Context, token guard.Token, o TxOptions, fn func(ctx context.Context, tx pgx.Tx) error) error {
	w, err := s.plan(ctx, token, &o)
	if err != nil {
		return s.refused(ctx, err)
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return notApplied("acquire connection", err)
	}
	defer conn.Release()
	if err := w.begin(ctx, conn.Conn()); err != nil {
		return s.refused(ctx, err)
	}
	if err := w.run(ctx, fn); err != nil {
		return s.refused(ctx, err)
	}
	err = w.commit(ctx)
	if err != nil && w.xact.id != "" && guard.OutcomeOf(err) == guard.Unknown {
		conn.Release() // the pool may have no other
		err = s.settle(ctx, w.xact, err)
	}
	return s.refused(ctx, err)
}

// plan makes sure that the tokens of a transaction are claimed, and lays out
// how it will begin.
func (s *Store) plan(ctx context.Context, token guard.Token, o *TxOptions) (*work, error) {
	w := &work{store: s, track: o.TrackCommit}
	w.one[0].token = token
	w.grants = w.one[:1]
	if len(o.Also) > 0 {
		w.grants = sorted(token, o.Also)
	}
	if err := w.open(&o.TxOptions); err != nil {
		return nil, err
	}
	for i := range w.grants {
		g, err := s.claimed(ctx, w.grants[i].token)
		if err != nil {
			return nil, err
		}
		w.grants[i] = g
	}
	return w, nil
}

// run runs fn inside the transaction that has begun. Unless it returns nil,
// the transaction is over.
func (w *work) run(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	w.tx = &fencedTx{conn: w.conn, session: w.session}
	returned := false
	defer func() {
		w.tx.closed = true
		if !returned { // it panics, or ends its goroutine
			w.rollback(ctx)
		}
	}()
	err := fn(ctx, w.tx)
	returned = true
	return w.ended(ctx, err)
}

// ended judges the state in which fn left the transaction.
func (w *work) ended(ctx context.Context, err error) error {
	switch {
	case w.conn.IsClosed():
		if err == nil {
			err = errors.New("connection was lost")
		}
		return notApplied("run transaction", w.refusal(err))
	case w.conn.PgConn().TxStatus() == 'I':
		// Through tx.Conn, past every guard. What it wrote may be committed.
		gone := w.unsupported("fn ended the transaction itself")
		return guard.WithOutcome(errors.Join(gone, err), guard.Unknown)
	case err != nil:
		w.rollback(ctx)
		return notApplied("", w.refusal(err))
	case w.conn.PgConn().TxStatus() == 'E':
		w.rollback(ctx)
		return notApplied("commit", pgx.ErrTxCommitRollback)
	}
	return nil
}
