package pgstore

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// rewritten is a pgx.QueryRewriter that sends another text.
type rewritten string

func (r rewritten) RewriteQuery(context.Context, *pgx.Conn, string, []any) (sql string, args []any, err error) {
	return string(r), nil, nil
}

// A statement that ends the transaction is refused also where its text is not
// what is handed to the transaction; otherwise what was written before it
// would be committed past the check (I1).
func TestUnseenTextsCannotEndTx(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		pool := openPool(t, e.url, func(c *pgxpool.Config) {
			c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
				_, err := conn.Prepare(ctx, "finish", "commit and chain")
				return err
			}
		})
		batch := func(sql string, args ...any) *pgx.Batch {
			b := &pgx.Batch{}
			b.Queue("insert into t values (1000)")
			b.Queue(sql, args...)
			return b
		}
		for name, end := range map[string]func(context.Context, pgx.Tx) error{
			"prepared name": func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "finish")
				return err
			},
			"prepared name, query": func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Query(ctx, "finish")
				return err
			},
			"rewriter": func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "select 1", rewritten("commit and chain"))
				return err
			},
			"rewriter, simple protocol": func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "select 1", pgx.QueryExecModeSimpleProtocol, rewritten("commit; begin"))
				return err
			},
			"rewriter, row": func(ctx context.Context, tx pgx.Tx) error {
				return tx.QueryRow(ctx, "select 1", rewritten("commit and chain")).Scan(new(int))
			},
			"batch, prepared name": func(ctx context.Context, tx pgx.Tx) error { return tx.SendBatch(ctx, batch("finish")).Close() },
			"batch, rewriter": func(ctx context.Context, tx pgx.Tx) error {
				return tx.SendBatch(ctx, batch("select 1", rewritten("commit and chain"))).Close()
			},
		} {
			for _, c := range []Config{{}, {Lean: true}} {
				old, next := newStore(t, pool, c), newStore(t, pool, c)
				n := query[int64](t, e.pool, "select coalesce(max(writer), 0) from fence.marks")
				mustClaim(t, old, writer(n+1))
				err := old.InTx(t.Context(), writer(n+1), func(ctx context.Context, tx pgx.Tx) error {
					mustClaim(t, next, writer(n+2))
					if _, err := tx.Exec(ctx, "insert into t values (1000) on conflict do nothing"); err != nil {
						return err
					}
					return end(ctx, tx)
				})
				if !errors.Is(err, guard.ErrUnsupported) {
					t.Errorf("%s: got %v, want %v", name, err, guard.ErrUnsupported)
				}
				if query[bool](t, e.pool, "select exists (select from t where id = 1000)") {
					t.Fatalf("%s: a stale row was committed", name)
				}
			}
		}
	})
}

func TestUnseenTextsCannotEndBatch(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	pool := openPool(t, e.url, func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Prepare(ctx, "finish", "commit")
			return err
		}
	})
	store := newStore(t, pool, Config{})
	mustClaim(t, store, writer(1))
	for name, queue := range map[string]func(*pgx.Batch){
		"prepared name": func(b *pgx.Batch) { b.Queue("finish") },
		"rewriter":      func(b *pgx.Batch) { b.Queue("select 1", rewritten("commit")) },
		"two statements": func(b *pgx.Batch) {
			b.Queue("select 1", rewritten("select 1; commit"))
		},
	} {
		b := &pgx.Batch{}
		b.Queue("insert into t values (1000)")
		queue(b)
		err := store.SendBatch(t.Context(), writer(1), b)
		if !errors.Is(err, guard.ErrUnsupported) {
			t.Errorf("%s: got %v, want %v", name, err, guard.ErrUnsupported)
		}
		if query[bool](t, e.pool, "select exists (select from t where id = 1000)") {
			t.Fatalf("%s: the batch was committed in part", name)
		}
	}
}

// Rewriters and prepared names that end nothing work as on bare pgx.
func TestUnseenTextsWork(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	pool := openPool(t, e.url, func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Prepare(ctx, "raise", "update t set n = n + $1 where id = 1")
			return err
		}
	})
	store := newStore(t, pool, Config{})
	err := store.InTx(t.Context(), writer(1), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "raise", 1); err != nil {
			return err
		}
		if _, err := tx.Prepare(ctx, "again", "update t set n = n + 10 where id = 1"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "again"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "update t set n = n + @by where id = 1", pgx.NamedArgs{"by": 100})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Exec(t.Context(), writer(1), "raise", 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Exec(t.Context(), writer(1), "update t set n = n + @by where id = 1", pgx.NamedArgs{"by": 10000}); err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, e.pool, "select n from t where id = 1"); n != 11111 {
		t.Errorf("got %d", n)
	}
}

// A transaction that imports a snapshot could read what is older than its own
// claim, and commit on it (I9).
func TestImportedSnapshotIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	imports := "set transaction snapshot '00000003-0000001B-1'"
	err := e.store.InTxOptions(t.Context(), writer(1), TxOptions{
		TxOptions: pgx.TxOptions{BeginQuery: "begin isolation level repeatable read; " + imports},
	}, update(1))
	if !errors.Is(err, guard.ErrUnsupported) {
		t.Errorf("BeginQuery: %v", err)
	}
	lean := newStore(t, e.pool, Config{Lean: true})
	err = lean.InTxOptions(t.Context(), writer(1), TxOptions{TxOptions: pgx.TxOptions{IsoLevel: pgx.RepeatableRead}},
		func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, imports)
			return err
		})
	if !errors.Is(err, guard.ErrUnsupported) {
		t.Errorf("inside fn: %v", err)
	}
}

// What a stale holder does to its own transaction makes no difference (I1).
func TestStaleInDisguise(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		for n, after := range []string{
			"set transaction read only", "set local fence.token = ''", "reset fence.token", "set local fence.checked = 'x'",
			"savepoint s; update t set n = n + 1 where id = 2; rollback to s",
		} {
			old, next := newStore(t, e.pool, Config{}), newStore(t, e.pool, Config{})
			token := writer(int64(2*n + 1))
			mustClaim(t, old, token)
			err := old.InTx(t.Context(), token, func(ctx context.Context, tx pgx.Tx) error {
				if err := update(1)(ctx, tx); err != nil {
					return err
				}
				mustClaim(t, next, writer(int64(2*n+2)))
				_, err := tx.Exec(ctx, after)
				return err
			})
			if !errors.Is(err, guard.ErrStale) {
				t.Errorf("%s: got %v, want %v", after, err, guard.ErrStale)
			}
		}
		if n := query[int](t, e.pool, "select sum(n)::int from t"); n != 0 {
			t.Errorf("%d stale updates", n)
		}
	})
}

// What another write came to is not what this one came to (I2).
func TestOutcomeOfAnotherWrite(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	mustClaim(t, e.store, writer(1))
	applied := func(ctx context.Context) error {
		var b pgx.Batch
		b.Queue("update t set n = n + 1 where id = 1").Exec(func(pgconn.CommandTag) error {
			return &guard.RefusedError{Reason: guard.ErrStale}
		})
		return e.store.SendBatch(ctx, writer(1), &b)
	}
	if err := applied(t.Context()); guard.OutcomeOf(err) != guard.Applied {
		t.Fatalf("the batch: %v", guard.OutcomeOf(err))
	}
	for name, wrap := range map[string]func(error) error{
		"bare":   func(err error) error { return err },
		"joined": func(err error) error { return errors.Join(err, errors.New("x")) },
	} {
		err := e.store.InTx(t.Context(), writer(1), func(ctx context.Context, tx pgx.Tx) error {
			if err := update(2)(ctx, tx); err != nil {
				return err
			}
			return wrap(applied(ctx))
		})
		if got := guard.OutcomeOf(err); got != guard.NotApplied {
			t.Errorf("%s: the transaction that was rolled back is %v", name, got)
		}
	}
	if n := query[int](t, e.pool, "select n from t where id = 2"); n != 0 {
		t.Errorf("the rolled back transaction wrote %d", n)
	}
}
