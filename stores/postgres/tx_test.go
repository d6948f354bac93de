package pgstore

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// in runs fn in a transaction under token 33 that has to commit.
func in(t *testing.T, e *env, fn func(ctx context.Context, tx pgx.Tx) error) {
	t.Helper()
	if err := e.store.InTx(t.Context(), writer(33), fn); err != nil {
		t.Error(err)
	}
}

func n(t *testing.T, e *env, id int) int {
	t.Helper()
	return query[int](t, e.pool, "select n from t where id = $1", id)
}

// What fn gets is a pgx.Tx in everything but its end (I7).
func TestTxIsPgx(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	t.Run("savepoints", func(t *testing.T) {
		in(t, e, func(ctx context.Context, tx pgx.Tx) error {
			kept, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			inner, err := kept.Begin(ctx)
			if err != nil {
				return err
			}
			err = errors.Join(update(1)(ctx, inner), inner.Rollback(ctx), update(2)(ctx, kept), kept.Commit(ctx))
			if !errors.Is(inner.Rollback(ctx), pgx.ErrTxClosed) || !errors.Is(kept.Commit(ctx), pgx.ErrTxClosed) {
				t.Error("ended savepoints are not closed")
			}
			if _, err := inner.Exec(ctx, "select 1"); !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("Exec on an ended savepoint: %v", err)
			}
			return errors.Join(err, pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return update(2)(ctx, tx) }))
		})
		if n(t, e, 1) != 0 || n(t, e, 2) != 2 {
			t.Errorf("rows 1, 2 are %d, %d; want 0, 2", n(t, e, 1), n(t, e, 2))
		}
	})
	t.Run("failed savepoint", func(t *testing.T) {
		in(t, e, func(ctx context.Context, tx pgx.Tx) error {
			err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "select 1/0")
				return err
			})
			if !isError(err, "22012") {
				t.Errorf("want division by zero: %v", err)
			}
			return update(3)(ctx, tx)
		})
		if n(t, e, 3) != 1 {
			t.Error("the update after the savepoint is missing")
		}
	})
	t.Run("copy, batch, prepare, query", func(t *testing.T) {
		in(t, e, func(ctx context.Context, tx pgx.Tx) error {
			if copied, err := tx.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"id"}, pgx.CopyFromRows([][]any{{201}, {202}})); err != nil || copied != 2 {
				t.Errorf("copied %d: %v", copied, err)
			}
			var b pgx.Batch
			b.Queue("update t set n = 7 where id = $1", 201)
			var got int
			b.Queue("select n from t where id = $1", 201).QueryRow(func(row pgx.Row) error { return row.Scan(&got) })
			if err := tx.SendBatch(ctx, &b).Close(); err != nil || got != 7 {
				t.Errorf("batch read %d: %v", got, err)
			}
			if _, err := tx.Prepare(ctx, "mine", "select n from t where id = $1"); err != nil {
				return err
			}
			if err := tx.QueryRow(ctx, "mine", 201).Scan(&got); err != nil || got != 7 {
				t.Errorf("prepared read %d: %v", got, err)
			}
			rows, _ := tx.Query(ctx, "select id from t where id > 200")
			ids, err := pgx.CollectRows(rows, pgx.RowTo[int])
			if len(ids) != 2 {
				t.Errorf("read %v", ids)
			}
			return err
		})
	})
	t.Run("large objects", func(t *testing.T) {
		in(t, e, func(ctx context.Context, tx pgx.Tx) error {
			objects := tx.LargeObjects()
			oid, err := objects.Create(ctx, 0)
			if err != nil {
				return err
			}
			o, err := objects.Open(ctx, oid, pgx.LargeObjectModeRead|pgx.LargeObjectModeWrite)
			if err != nil {
				return err
			}
			if _, err := o.Write([]byte("bytes")); err != nil {
				return err
			}
			if _, err := o.Seek(0, io.SeekStart); err != nil {
				return err
			}
			b, err := io.ReadAll(o)
			if string(b) != "bytes" {
				t.Errorf("read %q", b)
			}
			return err
		})
	})
}

// The store ends the transaction: every other way to do it is refused, and
// the transaction goes on (I1).
func TestTxCannotBeEnded(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, guard.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", what, err)
		}
	}
	in(t, e, func(ctx context.Context, tx pgx.Tx) error {
		refused("Commit", tx.Commit(ctx))
		refused("Rollback", tx.Rollback(ctx))
		for _, sql := range []string{
			"commit", "END", "rollback", "abort", "prepare transaction 'x'", "commit and chain", "commit prepared 'x'",
			"select 1; commit", "/* ; */ select ';'; rollback; select 2",
		} {
			_, err := tx.Exec(ctx, sql)
			refused("Exec "+sql, err)
			rows, err := tx.Query(ctx, sql)
			refused("Query "+sql, err)
			if rows.Next() || rows.Scan() == nil || rows.Err() == nil {
				t.Errorf("%s: rows without an error", sql)
			}
			refused("QueryRow "+sql, tx.QueryRow(ctx, sql).Scan())
			_, err = tx.Prepare(ctx, "", sql)
			refused("Prepare "+sql, err)
			var b pgx.Batch
			b.Queue("select 1")
			b.Queue(sql)
			refused("SendBatch "+sql, tx.SendBatch(ctx, &b).Close())
		}
		var b pgx.Batch
		b.BeginTx(pgx.TxOptions{})
		refused("Batch.BeginTx", tx.SendBatch(ctx, &b).Close())
		sp, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		_, err = sp.Exec(ctx, "commit")
		refused("Exec in a savepoint", err)
		if _, err := tx.Exec(ctx, "rollback to sp_1; release sp_1"); err != nil {
			return err
		}
		return update(1)(ctx, tx)
	})
	if n(t, e, 1) != 1 {
		t.Error("the transaction did not go on")
	}
}

// Whoever reaches around the guards by Conn is told, and nothing is claimed
// about what was written (I2).
func TestTxEndedByConn(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	for _, failure := range []error{nil, io.ErrUnexpectedEOF} {
		err := e.store.InTx(t.Context(), writer(33), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Conn().Exec(ctx, "commit")
			return errors.Join(err, failure)
		})
		if !errors.Is(err, guard.ErrUnsupported) || guard.OutcomeOf(err) != guard.Unknown || !errors.Is(err, failure) && failure != nil {
			t.Errorf("%v, outcome %v", err, guard.OutcomeOf(err))
		}
	}
}

func TestTxAfterFn(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	var tx, sp pgx.Tx
	in(t, e, func(ctx context.Context, outer pgx.Tx) (err error) {
		tx = outer
		sp, err = tx.Begin(ctx)
		return err
	})
	ctx := t.Context()
	for _, closed := range []pgx.Tx{tx, sp} {
		_, err := closed.Exec(ctx, "select 1")
		_, err2 := closed.Query(ctx, "select 1")
		_, err3 := closed.CopyFrom(ctx, nil, nil, nil)
		_, err4 := closed.Begin(ctx)
		_, err5 := closed.Prepare(ctx, "", "select 1")
		objects := closed.LargeObjects()
		_, err6 := objects.Create(ctx, 0)
		var b pgx.Batch
		b.Queue("select 1")
		for i, err := range []error{err, err2, err3, err4, err5, err6, closed.QueryRow(ctx, "select 1").Scan(), closed.SendBatch(ctx, &b).Close(), closed.Commit(ctx), closed.Rollback(ctx)} {
			if !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("%T: use %d after fn: %v, want ErrTxClosed", closed, i, err)
			}
		}
	}
}

// A fn that fails, panics, ends its goroutine or swallows an error leaves
// nothing behind, and gives its connection back.
func TestTxFails(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	mine := errors.New("mine")
	for name, c := range map[string]struct {
		fn      func(ctx context.Context, tx pgx.Tx) error
		outcome guard.Outcome
		want    error
	}{
		"error":     {func(context.Context, pgx.Tx) error { return mine }, guard.NotApplied, mine},
		"swallowed": {func(ctx context.Context, tx pgx.Tx) error { _, _ = tx.Exec(ctx, "select 1/0"); return nil }, guard.NotApplied, pgx.ErrTxCommitRollback},
		"rows left open": {func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Query(ctx, "select generate_series(1, 100000)")
			return err
		}, guard.NotApplied, nil},
		"connection closed": {func(ctx context.Context, tx pgx.Tx) error { return tx.Conn().Close(ctx) }, guard.NotApplied, nil},
	} {
		err := e.store.InTx(t.Context(), writer(33), func(ctx context.Context, tx pgx.Tx) error {
			return errors.Join(update(1)(ctx, tx), c.fn(ctx, tx))
		})
		if err == nil || guard.OutcomeOf(err) != c.outcome || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, outcome %v", name, err, guard.OutcomeOf(err))
		}
	}
	func() {
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, mine) {
				t.Error("the panic got lost")
			}
		}()
		_ = e.store.InTx(t.Context(), writer(33), func(ctx context.Context, tx pgx.Tx) error {
			_ = update(1)(ctx, tx)
			panic(mine)
		})
	}()
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = e.store.InTx(t.Context(), writer(33), func(ctx context.Context, tx pgx.Tx) error {
			_ = update(1)(ctx, tx)
			runtime.Goexit()
			return nil
		})
	})
	wg.Wait()
	if got := n(t, e, 1); got != 0 {
		t.Errorf("n = %d, want 0", got)
	}
	eventually(t, "all connections are back", func() bool { return e.pool.Stat().AcquiredConns() == 0 })
	eventually(t, "no transaction is left open", func() bool { // the server sees a closed connection a little later
		return query[int](t, e.pool, "select count(*)::int from pg_stat_activity where state like 'idle in%' and datname = current_database()") == 0
	})
}
