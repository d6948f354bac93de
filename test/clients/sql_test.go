package clients_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TestDatabaseSQL does what programs do with database/sql, over a pool of several
// connections.
func TestDatabaseSQL(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		compare(t, s, false, runSQL)
	})
}

func runSQL(t *testing.T, w *world, meanwhile func()) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
	defer cancel()
	db, err := sql.Open("pgx", w.dsn(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c := &sqlClient{script: &script{t: t, stop: meanwhile}, ctx: ctx, db: db}
	c.step("exec", func() (any, error) { return c.exec("INSERT INTO accounts VALUES ($1, $2, 600)", 6, "six") })
	c.step("again", func() (any, error) { return c.exec("INSERT INTO accounts VALUES ($1, $2, 600)", 6, "six") })
	c.step("syntax", func() (any, error) { return c.exec("SELECT FROM WHERE") })
	c.step("query", func() (any, error) {
		var n int
		err := db.QueryRowContext(ctx, "SELECT count(*) FROM accounts WHERE id > $1", 0).Scan(&n)
		return n, err
	})
	c.step("prepared", c.prepared)
	c.step("transaction", func() (any, error) { return c.inTx(nil, func(*sql.Tx) error { return nil }) })
	c.step("serializable", func() (any, error) {
		return c.inTx(&sql.TxOptions{Isolation: sql.LevelSerializable}, func(*sql.Tx) error { return nil })
	})
	c.step("read only", func() (any, error) {
		return c.inTx(&sql.TxOptions{ReadOnly: true}, func(*sql.Tx) error { return nil })
	})
	c.step("given up", func() (any, error) {
		return c.inTx(nil, func(*sql.Tx) error { return errors.New("given up") })
	})
	c.step("late transaction", func() (any, error) {
		return c.inTx(nil, func(*sql.Tx) error {
			c.mark()
			return nil
		})
	})
	c.step("late exec", func() (any, error) { return c.exec("INSERT INTO accounts VALUES ($1, $2, 600)", 7, "seven") })
	c.step("late prepared", c.prepared)
	c.step("late transaction", func() (any, error) { return c.inTx(nil, func(*sql.Tx) error { return nil }) })
	return c.outcome(w)
}

type sqlClient struct {
	*script

	ctx context.Context
	db  *sql.DB
}

func (c *sqlClient) exec(text string, args ...any) (any, error) {
	result, err := c.db.ExecContext(c.ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return result.RowsAffected()
}

// prepared uses a statement inside and outside of a transaction.
func (c *sqlClient) prepared() (any, error) {
	stmt, err := c.db.PrepareContext(c.ctx, "UPDATE accounts SET balance = balance + 1 WHERE id = $1")
	if err != nil {
		return nil, err
	}
	defer stmt.Close()
	if _, err := stmt.ExecContext(c.ctx, 1); err != nil {
		return nil, err
	}
	return c.inTx(nil, func(tx *sql.Tx) error {
		_, err := tx.StmtContext(c.ctx, stmt).ExecContext(c.ctx, 2)
		return err
	})
}

// inTx writes in a transaction, calls f, and commits.
func (c *sqlClient) inTx(o *sql.TxOptions, f func(tx *sql.Tx) error) (any, error) {
	tx, err := c.db.BeginTx(c.ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if _, err := tx.ExecContext(c.ctx, "INSERT INTO entries (amount) VALUES ($1)", 1); err != nil {
		return nil, err
	}
	if err := f(tx); err != nil {
		return nil, err
	}
	return "committed", tx.Commit()
}
