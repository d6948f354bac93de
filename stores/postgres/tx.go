package pgstore

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fenceproxy/fenceproxy/guard"
)

var (
	_ pgx.Tx = (*fencedTx)(nil)
	_ pgx.Tx = (*savepoint)(nil)
)

// fencedTx is the transaction that InTx hands out: a pgx.Tx that cannot be
// ended, since the store ends it.
type fencedTx struct {
	conn       *pgx.Conn
	session    *session
	savepoints int
	closed     bool
	forgot     bool // the session's prepared statements were deallocated
}

var errStoreEnds = errors.New("the store commits when fn returns nil, and rolls back otherwise")

// Commit is refused.
func (tx *fencedTx) Commit(context.Context) error { return tx.end() }

// Rollback is refused: fn returns an error to roll back.
func (tx *fencedTx) Rollback(context.Context) error { return tx.end() }

func (tx *fencedTx) end() error {
	if tx.closed {
		return pgx.ErrTxClosed
	}
	return &guard.RefusedError{Reason: unsupportedError{errStoreEnds.Error()}}
}

// Begin makes a savepoint, as a pgx.Tx does.
func (tx *fencedTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if tx.closed {
		return nil, pgx.ErrTxClosed
	}
	tx.savepoints++
	name := "sp_" + strconv.Itoa(tx.savepoints)
	if _, err := tx.conn.Exec(ctx, "savepoint "+name); err != nil {
		return nil, err
	}
	return &savepoint{tx: tx, name: name}, nil
}

// CopyFrom is that of pgx.
func (tx *fencedTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, source pgx.CopyFromSource) (int64, error) {
	if tx.closed {
		return 0, pgx.ErrTxClosed
	}
	return tx.conn.CopyFrom(ctx, table, columns, source)
}

// SendBatch is that of pgx. A batch with a text that would end the
// transaction is not sent.
func (tx *fencedTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, q := range b.QueuedQueries {
		var err error
		if q.Arguments, err = tx.admit(ctx, q.SQL, q.Arguments); err != nil {
			return pgx.FailedBatchResults(b, err)
		}
	}
	if beginsTx(b) {
		return pgx.FailedBatchResults(b, errBatchBegins)
	}
	return tx.conn.SendBatch(ctx, b)
}

var errBatchBegins = &guard.RefusedError{Reason: unsupportedError{"Batch.BeginTx: the store begins the transaction"}}

// beginsTx reports whether Batch.BeginTx was called, which only the results
// of a batch tell.
func beginsTx(b *pgx.Batch) bool { return pgx.FailedBatchResults(b, errBatchBegins).Tx() != nil }

// LargeObjects is that of pgx; it costs one more round trip.
func (tx *fencedTx) LargeObjects() pgx.LargeObjects {
	if !tx.closed {
		// Only a transaction of pgx itself can make it. The empty statement begins
		// none, and runs in whatever state this one is.
		inner, err := tx.conn.BeginTx(context.Background(), pgx.TxOptions{BeginQuery: ";"})
		if err == nil {
			return inner.LargeObjects()
		}
	}
	var b pgx.Batch
	b.BeginTx(pgx.TxOptions{})
	return pgx.FailedBatchResults(&b, pgx.ErrTxClosed).Tx().LargeObjects()
}

// Prepare is that of pgx.
func (tx *fencedTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := tx.admitText(ctx, sql); err != nil {
		return nil, err
	}
	return tx.conn.Prepare(ctx, name, sql)
}

// Exec is that of pgx.
func (tx *fencedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	args, err := tx.admit(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return tx.conn.Exec(ctx, sql, args...)
}

// Query is that of pgx.
func (tx *fencedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	args, err := tx.admit(ctx, sql, args)
	if err != nil {
		return failedRows{err}, err
	}
	return tx.conn.Query(ctx, sql, args...)
}

// QueryRow is that of pgx.
func (tx *fencedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	args, err := tx.admit(ctx, sql, args)
	if err != nil {
		return failedRows{err}
	}
	return tx.conn.QueryRow(ctx, sql, args...)
}

// Conn is the connection itself. What is done to the transaction through it
// is not guarded.
func (tx *fencedTx) Conn() *pgx.Conn { return tx.conn }

// failedRows are the rows of a query that was not sent.
type failedRows struct{ err error }

func (r failedRows) Close()                                       {}
func (r failedRows) Err() error                                   { return r.err }
func (r failedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r failedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r failedRows) Next() bool                                   { return false }
func (r failedRows) Scan(...any) error                            { return r.err }
func (r failedRows) Values() ([]any, error)                       { return nil, r.err }
func (r failedRows) RawValues() [][]byte                          { return nil }
func (r failedRows) Conn() *pgx.Conn                              { return nil }
func (r failedRows) TypeMap() *pgtype.Map                         { return nil }
