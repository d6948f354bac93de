package pgstore

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

var execModes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

func inMode(mode pgx.QueryExecMode, conns int32) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = mode
		c.MaxConns = conns
	}
}

// Everything that a store does, in every way to send a query.
func TestExecModes(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		for _, mode := range execModes {
			t.Run(mode.String(), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, s, Config{})
				everything(t, e, newStore(t, openPool(t, e.url, inMode(mode, 4)), Config{}), true)
			})
			t.Run(mode.String()+", lean", func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, s, Config{})
				everything(t, e, newStore(t, openPool(t, e.url, inMode(mode, 4)), Config{Lean: true}), false)
			})
		}
	})
}

func TestPgBouncer(t *testing.T) {
	t.Parallel()
	for pooling, modes := range map[string][]pgx.QueryExecMode{
		"session":     execModes,
		"transaction": {pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol},
	} {
		for _, mode := range modes {
			t.Run(pooling+", "+mode.String(), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, testenv.Postgres(t), Config{})
				everything(t, e, newStore(t, openPool(t, testenv.PgBouncer(t, e.url, pooling), inMode(mode, 4)), Config{}), true)
			})
		}
	}
}

// everything runs each kind of work through store, current and stale.
// protected tells whether protected tables take its writes.
func everything(t *testing.T, e *env, store *Store, protected bool) {
	t.Helper()
	ctx := t.Context()
	other := guard.Token{Resource: "a, 'b'; \"ü\"", Number: 7, Mode: guard.Exclusive, Holder: "h"}
	mustExec(t, e.pool, "create table p (id int primary key, n int not null default 0)")
	mustExec(t, e.pool, "insert into p values (1)")
	if err := store.Protect(ctx, pgx.Identifier{"public", "p"}, "orders"); err != nil {
		t.Fatal(err)
	}
	writes := map[string]func(token guard.Token) error{
		"InTx": func(token guard.Token) error { return store.InTx(ctx, token, update(1)) },
		"InTx, serializable, two resources, tracked": func(token guard.Token) error {
			o := TxOptions{TxOptions: pgx.TxOptions{IsoLevel: pgx.Serializable}, Also: []guard.Token{other}, TrackCommit: true}
			return store.InTxOptions(ctx, token, o, update(2))
		},
		"InTx, BeginQuery": func(token guard.Token) error {
			o := TxOptions{TxOptions: pgx.TxOptions{BeginQuery: "start transaction isolation level repeatable read -- mine"}}
			return store.InTxOptions(ctx, token, o, func(ctx context.Context, tx pgx.Tx) error {
				if level := ask(t, tx.Conn(), "show transaction_isolation"); level != "repeatable read" {
					t.Errorf("isolation level %q", level)
				}
				return update(3)(ctx, tx)
			})
		},
		"Exec": func(token guard.Token) error {
			tag, err := store.Exec(ctx, token, "update t set n = n + $1 where id = $2", 1, 4)
			if err == nil && tag.RowsAffected() != 1 {
				t.Errorf("Exec: tag %s", tag)
			}
			return err
		},
		"SendBatch": func(token guard.Token) error {
			var b pgx.Batch
			got := 0
			b.Queue("update t set n = n + $1 where id = $2", 1, 5)
			b.Queue("select n from t where id = $1 -- comment", 5).QueryRow(func(row pgx.Row) error { return row.Scan(&got) })
			err := store.SendBatch(ctx, token, &b)
			if err == nil && got < 1 {
				t.Errorf("SendBatch: read %d", got)
			}
			return err
		},
	}
	ids := map[string]int{"InTx": 1, "InTx, serializable, two resources, tracked": 2, "InTx, BeginQuery": 3, "Exec": 4, "SendBatch": 5}
	for range 3 {
		for name, write := range writes {
			if err := write(writer(33)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	protectedWrite := func(token guard.Token) []error {
		_, err := store.Exec(ctx, token, "update p set n = n + 1")
		return []error{err, store.InTx(ctx, token, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "update p set n = n + 1")
			return err
		})}
	}
	for _, err := range protectedWrite(writer(33)) {
		if protected && err != nil || !protected && !errors.Is(err, guard.ErrNoToken) {
			t.Errorf("protected table: %v", err)
		}
	}
	held := holdEntry(t, store, writer(33))
	held()
	mustClaim(t, newStore(t, e.pool, Config{}), writer(34)) // behind this store's back
	for name, write := range writes {
		err := write(writer(33))
		if !errors.Is(err, guard.ErrStale) || guard.OutcomeOf(err) != guard.Refused {
			t.Errorf("%s, stale: %v, outcome %v", name, err, guard.OutcomeOf(err))
		}
		if got := n(t, e, ids[name]); got != 3 {
			t.Errorf("%s: n = %d, want 3", name, got)
		}
	}
	for _, err := range protectedWrite(writer(33)) {
		if guard.OutcomeOf(err) != guard.Refused {
			t.Errorf("protected table, stale: %v", err)
		}
	}
	if _, err := store.Enter(ctx, writer(33)); !errors.Is(err, guard.ErrStale) {
		t.Errorf("Enter, stale: %v", err)
	}
	for name, write := range writes {
		if err := write(writer(34)); err != nil {
			t.Errorf("%s, the new holder: %v", name, err)
		}
	}
	if err := store.Unprotect(ctx, pgx.Identifier{"public", "p"}); err != nil {
		t.Error(err)
	}
}

func holdEntry(t *testing.T, store *Store, token guard.Token) (release func()) {
	t.Helper()
	entry, err := store.Enter(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return entry.Exit
}

// A session that was reset behind the store's back, or by fn itself, costs a
// round trip and no transaction.
func TestSessionReset(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		pool := openPool(t, e.url, inMode(pgx.QueryExecModeCacheStatement, 1))
		store := newStore(t, pool, Config{})
		exec := func() error {
			_, err := store.Exec(t.Context(), writer(33), "update t set n = n + 1 where id = 1")
			return err
		}
		plain := func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "update t set n = n + 1 where id = 1")
			return err
		}
		for range 2 {
			for _, reset := range []string{"discard all", "deallocate all", `deallocate "fenceproxy begin"`, "deallocate fenceproxy_enter", "deallocate fenceproxy_check", "deallocate fenceproxy_commit"} {
				mustExec(t, pool, reset)
				if err := store.InTx(t.Context(), writer(33), plain); reset != "deallocate fenceproxy_check" && reset != "deallocate fenceproxy_commit" && err != nil {
					t.Errorf("InTx after %s: %v", reset, err)
				}
				if err := store.InTx(t.Context(), writer(33), plain); err != nil {
					t.Errorf("second InTx after %s: %v", reset, err)
				}
			}
			mustExec(t, pool, "discard all")
			if err := exec(); err != nil {
				t.Errorf("Exec after discard all: %v", err)
			}
		}
		for name, forget := range map[string]func(ctx context.Context, tx pgx.Tx) error{
			"deallocate all":     func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "deallocate all"); return err },
			"Conn.DeallocateAll": func(ctx context.Context, tx pgx.Tx) error { return tx.Conn().DeallocateAll(ctx) },
		} {
			for range 2 {
				err := store.InTx(t.Context(), writer(33), func(ctx context.Context, tx pgx.Tx) error {
					return errors.Join(plain(ctx, tx), forget(ctx, tx))
				})
				if err != nil {
					t.Errorf("%s inside fn: %v", name, err)
				}
			}
		}
	})
}

// A lean BEGIN notices a reset as well: nothing else of the store's is sent
// before COMMIT.
func TestLeanSessionReset(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	pool := openPool(t, e.url, inMode(pgx.QueryExecModeCacheStatement, 1))
	store := newStore(t, pool, Config{Lean: true})
	for range 3 {
		err := store.InTx(t.Context(), writer(33), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "update t set n = n + 1 where id = 1") // by the simple protocol
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		err = pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error { // past pgx, as a hook of the pool would
			_, err := simple(t.Context(), c.Conn().PgConn(), "discard all", nil)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
