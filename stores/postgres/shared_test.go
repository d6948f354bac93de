package pgstore

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// A shared token reads and never writes, however it goes about it (I1).
func TestSharedNeverWrites(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
			e := newEnv(t, s, Config{})
			store := newStore(t, openPool(t, e.url, inMode(mode, 4)), Config{})
			run := func(sql string) func(ctx context.Context, tx pgx.Tx) error {
				return func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Exec(ctx, sql)
					return err
				}
			}
			for range 3 {
				if err := store.InTx(t.Context(), reader(5), run("select * from t")); err != nil {
					t.Errorf("%v: read: %v", mode, err)
				}
				if _, err := store.Exec(t.Context(), reader(5), "select * from t"); err != nil {
					t.Errorf("%v: read by Exec: %v", mode, err)
				}
			}
			for _, sql := range []string{
				"update t set n = 99",
				"savepoint a; update t set n = 99; rollback to a",
			} {
				if err := store.InTx(t.Context(), reader(5), run(sql)); !isError(err, readOnlyTransaction) || !errors.Is(err, guard.ErrReadOnly) || guard.OutcomeOf(err) != guard.Refused {
					t.Errorf("%v: %s: %v", mode, sql, err)
				}
			}
			for _, sql := range []string{
				"set transaction read write; update t set n = 99",
				"set transaction read write; update t set n = 99; set transaction read only",
				"set transaction read write; savepoint a; update t set n = 99; rollback to a",
				"set transaction read write; select pg_current_xact_id()",
			} {
				for _, o := range []pgx.TxOptions{{}, {AccessMode: pgx.ReadOnly}, {BeginQuery: "begin"}, {IsoLevel: pgx.Serializable}} {
					err := store.InTxOptions(t.Context(), reader(5), TxOptions{TxOptions: o, TrackCommit: true}, run(sql))
					late := isError(err, "25001") // SET TRANSACTION after the snapshot that BEGIN took
					if !late && (!errors.Is(err, guard.ErrReadOnly) || guard.OutcomeOf(err) != guard.Refused) {
						t.Errorf("%v: %+v: %s: %v", mode, o, sql, err)
					}
				}
				lean := newStore(t, store.pool, Config{Lean: true})
				if err := lean.InTx(t.Context(), reader(5), run(sql)); !errors.Is(err, guard.ErrReadOnly) || guard.OutcomeOf(err) != guard.Refused {
					t.Errorf("%v, lean: %s: %v", mode, sql, err)
				}
			}
			if err := store.InTxOptions(t.Context(), reader(5), TxOptions{TxOptions: pgx.TxOptions{AccessMode: pgx.ReadWrite}}, run("select 1")); !errors.Is(err, guard.ErrReadOnly) {
				t.Errorf("%v: asked for read write: %v", mode, err)
			}
			if _, err := store.Exec(t.Context(), reader(5), "update t set n = 99"); !errors.Is(err, guard.ErrReadOnly) || guard.OutcomeOf(err) != guard.Refused {
				t.Errorf("%v: Exec: %v", mode, err)
			}
			if got := query[int](t, e.pool, "select sum(n)::int from t"); got != 0 {
				t.Errorf("%v: a shared token wrote: %d", mode, got)
			}
		}
	})
}

// Readers are many; each ends with the next writer, and a writer with the next
// reader.
func TestReadersAndWriters(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	read := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select * from t")
		return err
	}
	ctx := t.Context()
	if err := errors.Join(e.store.InTx(ctx, writer(1), update(1)), e.store.InTx(ctx, reader(3), read), e.store.InTx(ctx, reader(2), read), e.store.InTx(ctx, reader(3), read)); err != nil {
		t.Error(err)
	}
	if err := e.store.InTx(ctx, writer(1), update(1)); !errors.Is(err, guard.ErrStale) {
		t.Errorf("writer behind readers: %v", err)
	}
	if err := e.store.InTx(ctx, writer(4), update(1)); err != nil {
		t.Error(err)
	}
	for _, number := range []int64{2, 3} {
		if err := e.store.InTx(ctx, reader(number), read); !errors.Is(err, guard.ErrStale) {
			t.Errorf("reader %d behind a writer: %v", number, err)
		}
	}
	if err := e.store.InTx(ctx, reader(4), read); !errors.Is(err, guard.ErrDuplicate) {
		t.Errorf("reader with a writer's number: %v", err)
	}
}

// Live readers are neither waited for nor ended by another reader's claim.
func TestReadersDoNotWait(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	defer holdFence(t, e, reader(5))()
	strict := newStore(t, e.pool, Config{ClaimWait: 1, Evict: true})
	for number := int64(6); number < 9; number++ {
		release := holdEntry(t, strict, reader(number))
		defer release()
	}
}
