package pgstore_test //nolint:testableexamples // an example cannot start a Postgres: TestExamples runs these

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/guard"
	pgstore "github.com/fenceproxy/fenceproxy/stores/postgres"
)

// The holder of a lock claims right after the lock was granted, and writes
// under the lock's token.
func Example() {
	token := guard.Token{Resource: "orders", Number: 34, Mode: guard.Exclusive} // lease.Token()
	switch err := open(context.Background(), os.Getenv("DATABASE_URL"), token); guard.OutcomeOf(err) {
	case guard.Applied:
		fmt.Println("shipped")
	case guard.Refused:
		fmt.Println("the lock was lost, nothing was written:", err)
	case guard.NotApplied:
		fmt.Println("nothing was written:", err)
	case guard.Unknown:
		fmt.Println("look before you try again:", err)
	}
}

func open(ctx context.Context, databaseURL string, token guard.Token) error {
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		return err
	}
	return ship(ctx, store, token, 1)
}

func ship(ctx context.Context, store *pgstore.Store, token guard.Token, order int) error {
	if err := store.Claim(ctx, token); err != nil {
		return err
	}
	return store.InTx(ctx, token, func(ctx context.Context, tx pgx.Tx) error {
		var state string
		if err := tx.QueryRow(ctx, "select state from orders where id = $1", order).Scan(&state); err != nil {
			return err
		}
		if state != "paid" {
			return fmt.Errorf("order %d is %s", order, state)
		}
		_, err := tx.Exec(ctx, "update orders set state = 'shipped' where id = $1", order)
		return err
	})
}

// settleAll writes many rows in one round trip.
func settleAll(ctx context.Context, store *pgstore.Store, token guard.Token, orders []int) (settled int64, err error) {
	var b pgx.Batch
	for _, order := range orders {
		b.Queue("update orders set state = 'settled' where id = $1", order)
	}
	b.Queue("select count(*) from orders where state = 'settled'").QueryRow(func(row pgx.Row) error { return row.Scan(&settled) })
	err = store.SendBatch(ctx, token, &b)
	return settled, err
}

// move writes what two locks protect: both tokens must be current.
func move(ctx context.Context, store *pgstore.Store, orders, invoices guard.Token) error {
	o := pgstore.TxOptions{
		TxOptions:   pgx.TxOptions{IsoLevel: pgx.Serializable},
		Also:        []guard.Token{invoices},
		TrackCommit: true,
	}
	for {
		err := store.InTxOptions(ctx, orders, o, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `with gone as (delete from orders where state = 'settled' returning id) insert into invoices select id from gone`)
			return err
		})
		// The store never runs a transaction twice; at SERIALIZABLE the caller does.
		var serialization interface{ SQLState() string }
		if !errors.As(err, &serialization) || serialization.SQLState() != "40001" {
			return err
		}
	}
}

// shipBySQL does without this package what ship does, for database/sql and any
// other client: claim in a transaction of its own, check as the last statement.
func shipBySQL(ctx context.Context, db *sql.DB, token guard.Token, order int) error {
	claim, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = claim.Rollback() }()
	if _, err := claim.ExecContext(ctx, "select fence.claim($1)", token.String()); err != nil {
		return err
	}
	if err := claim.Commit(); err != nil {
		return err
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "update orders set state = 'shipped' where id = $1", order); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "select fence.check($1)", token.String()); err != nil {
		return err // SQLSTATE TK001: the lock was lost
	}
	return tx.Commit()
}
