package demo

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// opening is the balance that each ledger starts with.
const opening = 1000

// ledger is the workers' table: an account for each round of the story, its
// entries, and what the workers were told about each of their attempts.
type ledger struct{ schema string }

// database is a connection, a pool of them, or a transaction.
type database interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (l ledger) table(name string) string { return pgx.Identifier{l.schema, name}.Sanitize() }

func (l ledger) create(ctx context.Context, db database) error {
	_, err := db.Exec(ctx, fmt.Sprintf(`
		CREATE SCHEMA %s;
		CREATE TABLE %s (round text PRIMARY KEY, balance bigint NOT NULL);
		CREATE TABLE %s (
			id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
			round   text NOT NULL,
			attempt text NOT NULL UNIQUE,
			worker  text NOT NULL,
			number  bigint NOT NULL,
			amount  bigint NOT NULL);
		CREATE TABLE %s (
			id     text PRIMARY KEY,
			round  text NOT NULL,
			worker text NOT NULL,
			number bigint NOT NULL,
			told   text NOT NULL DEFAULT 'nothing');`,
		pgx.Identifier{l.schema}.Sanitize(), l.table("accounts"), l.table("entries"), l.table("attempts")))
	if err != nil {
		return fmt.Errorf("create the ledger: %w", err)
	}
	return nil
}

func (l ledger) open(ctx context.Context, db database, round string) error {
	_, err := db.Exec(ctx, "INSERT INTO "+l.table("accounts")+" VALUES ($1, $2)", round, opening)
	if err != nil {
		return fmt.Errorf("open the account: %w", err)
	}
	return nil
}

// read is the first half of the critical section. Like many programs it takes
// no row lock: it has a lock already.
func (l ledger) read(ctx context.Context, tx database, round string) (balance int64, err error) {
	err = tx.QueryRow(ctx, "SELECT balance FROM "+l.table("accounts")+" WHERE round = $1", round).Scan(&balance)
	if err != nil {
		return 0, fmt.Errorf("read balance: %w", err)
	}
	return balance, nil
}

// entry is a deposit: which attempt of which worker under which token.
type entry struct {
	round, attempt, worker string
	number, amount         int64
}

// write is the second half: it stores the balance that was computed from the
// one that was read, and an entry that says why.
//
// The order of the two statements makes the ids of committed entries rise in
// commit order, which account relies on: the account's row is locked before
// the id is drawn, and until the commit.
func (l ledger) write(ctx context.Context, tx database, e entry, balance int64) error {
	_, err := tx.Exec(ctx, "UPDATE "+l.table("accounts")+" SET balance = $2 WHERE round = $1", e.round, balance)
	if err != nil {
		return fmt.Errorf("write balance: %w", err)
	}
	_, err = tx.Exec(ctx, "INSERT INTO "+l.table("entries")+" (round, attempt, worker, number, amount) VALUES ($1, $2, $3, $4, $5)",
		e.round, e.attempt, e.worker, e.number, e.amount)
	if err != nil {
		return fmt.Errorf("write entry: %w", err)
	}
	return nil
}

// attempt notes, outside the critical section's transaction, that a worker is
// about to deposit; told what it was told in the end: "committed", or the
// SQLSTATE of a refusal.
func (l ledger) attempt(ctx context.Context, db database, e entry) error {
	_, err := db.Exec(ctx, "INSERT INTO "+l.table("attempts")+" (id, round, worker, number) VALUES ($1, $2, $3, $4)",
		e.attempt, e.round, e.worker, e.number)
	if err != nil {
		return fmt.Errorf("note attempt: %w", err)
	}
	return nil
}

func (l ledger) told(ctx context.Context, db database, e entry, told string) error {
	_, err := db.Exec(ctx, "UPDATE "+l.table("attempts")+" SET told = $2 WHERE id = $1", e.attempt, told)
	if err != nil {
		return fmt.Errorf("note what the worker was told: %w", err)
	}
	return nil
}

// Account is what the database says about one round of the story.
type Account struct {
	// StaleWritesApplied counts the committed entries whose token is older
	// than that of an entry committed before.
	StaleWritesApplied int `json:"stale_writes_applied"`
	// StaleWritesRefused counts the attempts that were refused as stale and
	// left no entry.
	StaleWritesRefused int `json:"stale_writes_refused"`
	// Acknowledged counts the attempts that a worker was told had been
	// committed, Entries what was committed, Amount their sum.
	Acknowledged int   `json:"acknowledged"`
	Entries      int   `json:"entries"`
	Amount       int64 `json:"amount"`
	// Balance is what the account says, Expected what it should say: the
	// opening balance and all entries.
	Balance  int64 `json:"balance"`
	Expected int64 `json:"expected"`
	// Right: the balance is the expected one, no stale write was applied, and
	// what was acknowledged is exactly what is there.
	Right bool `json:"ledger_right"`
}

// account counts, in SQL, what happened in a round.
func (l ledger) account(ctx context.Context, db database, round string) (Account, error) {
	var a Account
	var unexplained int
	err := db.QueryRow(ctx, fmt.Sprintf(`
		SELECT balance, $2::bigint + coalesce(amount, 0), coalesce(amount, 0), entries, stale, refused, acknowledged, unexplained
		  FROM (SELECT balance FROM %[1]s WHERE round = $1) account,
		       (SELECT sum(amount)::bigint AS amount, count(*) AS entries,
		               count(*) FILTER (WHERE number < newest_before) AS stale
		          FROM (SELECT amount, number, max(number) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS newest_before
		                  FROM %[2]s WHERE round = $1) e) entries,
		       (SELECT count(*) FILTER (WHERE a.told = 'TK001' AND e.id IS NULL) AS refused,
		               count(*) FILTER (WHERE a.told = 'committed') AS acknowledged,
		               count(*) FILTER (WHERE (a.told IS NOT DISTINCT FROM 'committed') <> (e.id IS NOT NULL)) AS unexplained
		          FROM %[3]s a FULL JOIN (SELECT * FROM %[2]s WHERE round = $1) e ON e.attempt = a.id
		         WHERE coalesce(a.round, e.round) = $1) attempts`,
		l.table("accounts"), l.table("entries"), l.table("attempts")), round, opening).
		Scan(&a.Balance, &a.Expected, &a.Amount, &a.Entries, &a.StaleWritesApplied, &a.StaleWritesRefused, &a.Acknowledged, &unexplained)
	if err != nil {
		return Account{}, fmt.Errorf("count what happened: %w", err)
	}
	a.Right = a.Balance == a.Expected && a.StaleWritesApplied == 0 && unexplained == 0
	return a, nil
}
