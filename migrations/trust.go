package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

func schemaExists(ctx context.Context, tx *sql.Tx) (there bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'fence')").Scan(&there)
	if err != nil {
		return false, fmt.Errorf("look for schema fence: %w", err)
	}
	return there, nil
}

// ensureSchema makes the schema for the table of versions, which is there
// before the first migration is.
func ensureSchema(ctx context.Context, tx *sql.Tx) error {
	there, err := schemaExists(ctx, tx)
	if err != nil || there {
		return err
	}
	if _, err := tx.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS fence"); err != nil {
		return fmt.Errorf("create schema fence: %w", err)
	}
	return nil
}

// trust refuses a schema in which somebody else may have put something: a
// trigger on the table of versions or a function fence.version() of theirs
// would run with the rights of who migrates. Once it has passed, nobody else
// can put anything there. The rule is the first statement of the first file.
func trust(ctx context.Context, tx *sql.Tx) error {
	const begin, end = "\nDO $$\n", "\nEND $$;\n"
	text, err := Files.ReadFile(name(1) + ".up.sql")
	if err != nil {
		return fmt.Errorf("read migration: %w", err)
	}
	_, rule, _ := strings.Cut(string(text), begin)
	rule, _, _ = strings.Cut(rule, end)
	_, err = tx.ExecContext(ctx, begin+rule+end)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && strings.HasPrefix(pgErr.Message, "fence: ") {
		return fmt.Errorf("%w. %s", err, pgErr.Hint)
	}
	if err != nil {
		return fmt.Errorf("look at schema fence: %w", err)
	}
	return nil
}

// trustIfSuperuser is trust for who only calls what the schema has: an ordinary
// role does that with every claim and check.
func trustIfSuperuser(ctx context.Context, tx *sql.Tx) error {
	var super bool
	if err := tx.QueryRowContext(ctx, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user").Scan(&super); err != nil {
		return fmt.Errorf("look for privileges: %w", err)
	}
	if !super {
		return nil
	}
	return trust(ctx, tx)
}
