package pgstore

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// A fenced transaction takes the round trips of the same one on bare pgx, in
// every exec mode; Exec and SendBatch take one.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	link := testenv.NewLink(t, e.server.Addr(), testenv.LinkConfig{Protocol: testenv.PostgresWire})
	other := guard.Token{Resource: "invoices", Number: 7, Mode: guard.Exclusive}
	for _, mode := range execModes {
		pool := openPool(t, testenv.URLVia(e.url, link.Addr()), inMode(mode, 1))
		count := func(f func() error) int {
			t.Helper()
			for range 2 { // caches are warm then
				if err := f(); err != nil {
					t.Fatalf("%v: %v", mode, err)
				}
			}
			before := link.Requests()
			if err := f(); err != nil {
				t.Fatalf("%v: %v", mode, err)
			}
			return link.Requests() - before
		}
		ctx := t.Context()
		bare := count(func() error { return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return update(1)(ctx, tx) }) })
		fenced, lean := newStore(t, pool, Config{}), newStore(t, pool, Config{Lean: true})
		for name, f := range map[string]func() error{
			"InTx":        func() error { return fenced.InTx(ctx, writer(33), update(1)) },
			"InTx, lean":  func() error { return lean.InTx(ctx, writer(33), update(1)) },
			"TrackCommit": func() error { return fenced.InTxOptions(ctx, writer(33), TxOptions{TrackCommit: true}, update(1)) },
			"two resource": func() error {
				return fenced.InTxOptions(ctx, writer(33), TxOptions{Also: []guard.Token{other}}, update(1))
			},
			"serializable": func() error {
				return fenced.InTxOptions(ctx, writer(33), TxOptions{TxOptions: pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadWrite}}, update(1))
			},
		} {
			if got := count(f); got != bare {
				t.Errorf("%v: %s takes %d round trips, bare pgx %d", mode, name, got, bare)
			}
		}
		statement, batch := 1, 1
		if mode == pgx.QueryExecModeDescribeExec {
			statement, batch = 2, 2 // pgx describes each time
		}
		if got := count(func() error {
			_, err := fenced.Exec(ctx, writer(33), "update t set n = n + 1 where id = $1", 1)
			return err
		}); got != statement {
			t.Errorf("%v: Exec takes %d round trips", mode, got)
		}
		if got := count(func() error {
			var b pgx.Batch
			for range 3 {
				b.Queue("update t set n = n + 1 where id = $1", 1)
			}
			return fenced.SendBatch(ctx, writer(33), &b)
		}); got != batch {
			t.Errorf("%v: SendBatch takes %d round trips", mode, got)
		}
	}
}

// The check needs no transaction id, and so writes no WAL: not even the slow one.

func TestNoTransactionID(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		if err := e.store.InTx(t.Context(), writer(33), func(ctx context.Context, tx pgx.Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			err := e.store.InTx(t.Context(), writer(33), func(ctx context.Context, tx pgx.Tx) error {
				var n int
				return tx.QueryRow(ctx, "select count(*) from t").Scan(&n)
			})
			if err != nil {
				t.Fatal(err)
			}
			err = e.store.InTx(t.Context(), writer(33), func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "select fence.ticket($1)", writer(33).String()) // the slow check
				if id := ask(t, tx.Conn(), "select coalesce(pg_current_xact_id_if_assigned()::text, 'none')"); id != "none" {
					t.Errorf("transaction id %s", id)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Fifty fenced transactions add no byte of WAL. The server has some of its own
// to write now and then, but not each time.
func TestNoWAL(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.StartPostgres(t, testenv.PostgresConfig{Settings: map[string]string{"autovacuum": "off"}}), Config{})
	read := func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, "select 1").Scan(new(int)) }
	if err := e.store.InTx(t.Context(), writer(33), read); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no WAL is written", func() bool {
		before := query[string](t, e.pool, "select pg_current_wal_insert_lsn()::text")
		for range 50 {
			if err := e.store.InTx(t.Context(), writer(33), read); err != nil {
				t.Fatal(err)
			}
		}
		return query[string](t, e.pool, "select pg_current_wal_insert_lsn()::text") == before
	})
}
