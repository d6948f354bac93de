package clients_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TestPgx does what programs do with pgx, in each of its modes.
func TestPgx(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		for _, mode := range []pgx.QueryExecMode{
			pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
			pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
		} {
			t.Run(strings.ReplaceAll(mode.String(), " ", "_"), func(t *testing.T) {
				t.Parallel()
				compare(t, s, false, func(t *testing.T, w *world, meanwhile func()) outcome {
					t.Helper()
					return runPgx(t, w, mode, meanwhile)
				})
			})
		}
	})
}

// script is a client in this program, step by step.
type script struct {
	t    *testing.T
	out  strings.Builder
	o    outcome
	stop func()
}

// step does something, and notes what came of it.
func (s *script) step(name string, do func() (any, error)) {
	got, err := do()
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg):
		// File, Line and Routine are the server's own, too.
		fmt.Fprintf(&s.out, "%s !! %+v\n", name, *pg)
	case err != nil:
		fmt.Fprintf(&s.out, "%s !! %v\n", name, err)
	default:
		fmt.Fprintf(&s.out, "%s -> %v\n", name, got)
	}
}

// mark is where others may claim.
func (s *script) mark() {
	s.o.before, s.o.marked = s.out.String(), true
	s.out.Reset()
	if s.stop != nil {
		s.stop()
	}
}

func (s *script) outcome(w *world) outcome {
	s.o.before, s.o.after, s.o.state = w.plain(s.t, s.o.before), w.plain(s.t, s.out.String()), w.state(s.t)
	return s.o
}

type pgxClient struct {
	*script

	ctx    context.Context
	conn   *pgx.Conn
	notice []string
	// joins: a batch is one message, in which nothing may follow a COMMIT.
	joins bool
}

func runPgx(t *testing.T, w *world, mode pgx.QueryExecMode, meanwhile func()) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
	defer cancel()
	c := &pgxClient{script: &script{t: t, stop: meanwhile}, ctx: ctx, joins: mode == pgx.QueryExecModeSimpleProtocol}
	config, err := pgx.ParseConfig(w.dsn(t))
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = mode
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { c.notice = append(c.notice, n.Message) }
	c.conn, err = pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.conn.Close(context.WithoutCancel(ctx))
	c.statements()
	c.transactions()
	c.others()
	c.late()
	return c.outcome(w)
}

// rows runs a query, and returns its rows.
func (c *pgxClient) rows(sql string, args ...any) (any, error) {
	rows, err := c.conn.Query(c.ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		return fmt.Sprint(values...), err
	})
}

func (c *pgxClient) exec(sql string, args ...any) (any, error) {
	return c.conn.Exec(c.ctx, sql, args...)
}

func (c *pgxClient) statements() {
	c.step("select", func() (any, error) { return c.rows("SELECT id, owner FROM accounts ORDER BY id") })
	c.step("insert", func() (any, error) { return c.rows("INSERT INTO accounts VALUES ($1, $2, 600) RETURNING id", 6, "six") })
	c.step("again", func() (any, error) { return c.exec("INSERT INTO accounts VALUES ($1, $2, 600)", 6, "six") })
	c.step("syntax", func() (any, error) { return c.exec("SELECT FROM WHERE") })
	c.step("several", func() (any, error) {
		return c.exec("INSERT INTO entries (amount) VALUES (1); INSERT INTO entries (amount) VALUES (2)")
	})
	for range 3 {
		c.step("update", func() (any, error) { return c.exec("UPDATE accounts SET balance = balance + 1 WHERE id = $1", 1) })
	}
	c.step("raise", func() (any, error) { return c.rows("SELECT breaks($1)", "x") })
	c.step("notice", func() (any, error) {
		_, err := c.exec("SELECT shout($1)", "x")
		return c.notice, err
	})
	c.step("empty", func() (any, error) { return c.exec("") })
	c.step("call", func() (any, error) { return c.exec("CALL pay($1, $2, 10)", 5, 4) })
	c.step("do", func() (any, error) {
		return c.exec("DO $$ BEGIN UPDATE accounts SET owner = 'done' WHERE id = 3; END $$")
	})
	c.step("vacuum", func() (any, error) { return c.exec("VACUUM accounts") })
}

// inTx runs f in a transaction that it commits.
func (c *pgxClient) inTx(o pgx.TxOptions, f func(tx pgx.Tx) error) (any, error) {
	return "committed", pgx.BeginTxFunc(c.ctx, c.conn, o, f)
}

func (c *pgxClient) transactions() {
	for _, o := range []pgx.TxOptions{
		{},
		{IsoLevel: pgx.RepeatableRead},
		{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadWrite},
		{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable},
	} {
		c.step(fmt.Sprint("transaction ", o), func() (any, error) {
			return c.inTx(o, func(tx pgx.Tx) error {
				var level string
				if err := tx.QueryRow(c.ctx, "SELECT current_setting($1)", "transaction_isolation").Scan(&level); err != nil {
					return err
				}
				_, err := tx.Exec(c.ctx, "INSERT INTO entries (account, note) VALUES ($1, $2)", 1, level)
				return err
			})
		})
	}
	c.step("savepoint", func() (any, error) {
		return c.inTx(pgx.TxOptions{}, func(tx pgx.Tx) error {
			err := pgx.BeginFunc(c.ctx, tx, func(sp pgx.Tx) error {
				_, err := sp.Exec(c.ctx, "INSERT INTO accounts VALUES ($1, 'one', 0)", 1)
				return err
			})
			if err == nil {
				return errors.New("no error")
			}
			_, err = tx.Exec(c.ctx, "INSERT INTO accounts VALUES ($1, 'seven', 0)", 7)
			return err
		})
	})
	c.step("failed", func() (any, error) {
		return c.inTx(pgx.TxOptions{}, func(tx pgx.Tx) error {
			_, err := tx.Exec(c.ctx, "SELECT 1/$1::int", 0)
			if err == nil {
				return errors.New("no error")
			}
			return nil // and commits
		})
	})
	c.step("deferred constraint", func() (any, error) {
		return c.inTx(pgx.TxOptions{}, func(tx pgx.Tx) error {
			_, err := tx.Exec(c.ctx, "INSERT INTO entries (account) VALUES ($1)", 404)
			return err
		})
	})
}

func (c *pgxClient) late() {
	c.step("late transaction", func() (any, error) {
		return c.inTx(pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
			_, err := tx.Exec(c.ctx, "INSERT INTO accounts VALUES ($1, 'fifty', 0)", 50)
			c.mark()
			return err
		})
	})
	c.step("late insert", func() (any, error) { return c.exec("INSERT INTO accounts VALUES ($1, $2, 600)", 51, "fifty-one") })
	c.step("late update", func() (any, error) { return c.exec("UPDATE accounts SET balance = balance + 1 WHERE id = $1", 1) })
	c.step("late batch", func() (any, error) { return c.batch("INSERT INTO entries (amount) VALUES (3)", "SELECT 1") })
	c.step("late batch with a block", c.batchWithBlock)
	c.step("rollback", func() (any, error) { return c.exec("ROLLBACK") })
	c.step("late copy", func() (any, error) { return c.copyFrom(6000, 6010) })
	c.step("late large object", c.largeObject)
	c.step("late pipeline", c.pipeline)
	c.step("late call", func() (any, error) { return c.exec("CALL pay($1, $2, 10)", 5, 4) })
}
