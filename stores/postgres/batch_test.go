package pgstore

import (
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// The callbacks of a batch run in order; one that fails stops those after it
// and not the transaction, which has long been committed.
func TestBatchCallbacks(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	for _, mode := range execModes {
		store := newStore(t, openPool(t, e.url, inMode(mode, 2)), Config{})
		for range 2 {
			before := n(t, e, 1)
			var b pgx.Batch
			var ids []int
			called := false
			b.Queue("update t set n = n + 1 where id = $1", 1)
			b.Queue("select id from t where id < $1 order by id", 4).Query(func(rows pgx.Rows) error {
				var err error
				ids, err = pgx.CollectRows(rows, pgx.RowTo[int])
				return errors.Join(err, io.ErrUnexpectedEOF)
			})
			b.Queue("select 1").QueryRow(func(pgx.Row) error { called = true; return nil })
			err := store.SendBatch(t.Context(), writer(33), &b)
			if !errors.Is(err, io.ErrUnexpectedEOF) || guard.OutcomeOf(err) != guard.Applied {
				t.Errorf("%v: %v, outcome %v", mode, err, guard.OutcomeOf(err))
			}
			if len(ids) != 3 || called || n(t, e, 1) != before+1 {
				t.Errorf("%v: read %v, called %v, n = %d, want %d", mode, ids, called, n(t, e, 1), before+1)
			}
		}
	}
}

// A batch that fails writes nothing, and says so.
func TestBatchFails(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	for _, mode := range execModes {
		store := newStore(t, openPool(t, e.url, inMode(mode, 2)), Config{})
		for _, failing := range []func(b *pgx.Batch){
			func(b *pgx.Batch) { b.Queue("select 1/0") },
			func(b *pgx.Batch) { b.Queue("select nothing") },
			func(b *pgx.Batch) {
				b.Queue("select 1/$1", 0).QueryRow(func(row pgx.Row) error { var n int; return row.Scan(&n) })
			},
			func(b *pgx.Batch) { b.Queue("select 1/$1", 0).Exec(func(pgconn.CommandTag) error { return nil }) },
			func(b *pgx.Batch) { b.Queue("select $1::int", struct{ a chan int }{}) },
			func(b *pgx.Batch) { b.Queue("vacuum t") },
		} {
			var b pgx.Batch
			b.Queue("update t set n = n + 1 where id = $1", 1)
			failing(&b)
			for range 2 {
				if err := store.SendBatch(t.Context(), writer(33), &b); guard.OutcomeOf(err) != guard.NotApplied {
					t.Errorf("%v: %s: %v, outcome %v", mode, b.QueuedQueries[1].SQL, err, guard.OutcomeOf(err))
				}
			}
			if _, err := store.Exec(t.Context(), writer(33), "update t set n = n + 1 where id = 2"); err != nil {
				t.Errorf("%v: the next one: %v", mode, err)
			}
		}
	}
	if got := n(t, e, 1); got != 0 {
		t.Errorf("n = %d, want 0", got)
	}
}

// What would break out of the transaction of a batch is not sent (I5).
func TestBatchRefuses(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	for _, sql := range []string{"commit", "begin", "start transaction", "rollback", "prepare transaction 'x'", "select 1; select 2", "update t set n = 1; commit", "", "-- nothing", ";"} {
		if _, err := e.store.Exec(t.Context(), writer(33), sql); !errors.Is(err, guard.ErrUnsupported) || guard.OutcomeOf(err) != guard.Refused {
			t.Errorf("Exec %q: %v", sql, err)
		}
	}
	var b pgx.Batch
	b.BeginTx(pgx.TxOptions{})
	if err := e.store.SendBatch(t.Context(), writer(33), &b); !errors.Is(err, guard.ErrUnsupported) {
		t.Errorf("Batch.BeginTx: %v", err)
	}
	if err := e.store.SendBatch(t.Context(), writer(33), &pgx.Batch{}); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
}

// TxOptions that the store cannot keep are refused, not bent (I5).
func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	for _, o := range []pgx.TxOptions{
		{CommitQuery: "commit and chain"},
		{BeginQuery: "select 1"},
		{BeginQuery: "begin; commit"},
		{BeginQuery: "begin; begin"},
		{BeginQuery: "begin 'x"},
		{BeginQuery: "begin /* x"},
		{BeginQuery: ";"},
	} {
		err := e.store.InTxOptions(t.Context(), writer(33), TxOptions{TxOptions: o}, update(1))
		if !errors.Is(err, guard.ErrUnsupported) || guard.OutcomeOf(err) != guard.Refused {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []pgx.TxOptions{{IsoLevel: "serialisable"}, {BeginQuery: "begin work nonsense"}} {
		if err := e.store.InTxOptions(t.Context(), writer(33), TxOptions{TxOptions: o}, update(1)); !isError(err, "42601") || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, also := range [][]guard.Token{{writer(34)}, {{}}, {{Resource: "x"}}} {
		if err := e.store.InTxOptions(t.Context(), writer(33), TxOptions{Also: also}, update(1)); !errors.Is(err, guard.ErrMalformed) {
			t.Errorf("also %+v: %v", also, err)
		}
	}
	if n(t, e, 1) != 0 {
		t.Error("something was written")
	}
}
