package pgstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
	pgstore "github.com/fenceproxy/fenceproxy/stores/postgres"
)

// TestExamples runs what example_test.go shows.
func TestExamples(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), testenv.Postgres(t).Database(t)
	if err := migrations.Up(ctx, url, migrations.Config{}); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	_, err = pool.Exec(ctx, "create table orders (id int primary key, state text); create table invoices (id int); insert into orders select g, 'paid' from generate_series(1, 5) g")
	if err != nil {
		t.Fatal(err)
	}
	store, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	orders := guard.Token{Resource: "orders", Number: 34, Mode: guard.Exclusive, Holder: "9f8c2ab1", Issuer: "k3v9"}
	newer, invoices := orders, orders
	newer.Number, newer.Holder, invoices.Resource = 35, "77aa", "invoices"

	if err := open(ctx, url, orders); err != nil {
		t.Error(err)
	}
	if err := ship(ctx, store, orders, 1); err == nil || guard.OutcomeOf(err) != guard.NotApplied {
		t.Errorf("shipped twice: %v", err)
	}
	if settled, err := settleAll(ctx, store, orders, []int{1, 2, 3}); err != nil || settled != 3 {
		t.Errorf("settled %d: %v", settled, err)
	}
	if err := move(ctx, store, orders, invoices); err != nil {
		t.Error(err)
	}
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = db.Close() })
	if err := shipBySQL(ctx, db, orders, 4); err != nil {
		t.Error(err)
	}
	if err := store.Claim(ctx, newer); err != nil {
		t.Fatal(err)
	}
	var pgErr *pgconn.PgError
	if err := shipBySQL(ctx, db, orders, 5); !errors.As(err, &pgErr) || pgErr.Code != "TK001" {
		t.Errorf("stale: %v", err)
	}
	if err := ship(ctx, store, orders, 5); !errors.Is(err, guard.ErrStale) {
		t.Errorf("stale: %v", err)
	}
	var state string
	if err := pool.QueryRow(context.WithoutCancel(ctx), "select string_agg(id || ' ' || state, ', ' order by id) from orders").Scan(&state); err != nil || state != "4 shipped, 5 paid" {
		t.Errorf("orders: %s, %v", state, err)
	}
}
