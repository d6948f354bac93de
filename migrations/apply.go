package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pressly/goose/v3"
)

// name is what the files of a migration are called.
func name(version int) string {
	return [Version + 1]string{1: "0001_marks", 2: "0002_claim", 3: "0003_check", 4: "0004_protect", 5: "0005_proxy"}[version]
}

// inPath calls f in a transaction in which names mean what PostgreSQL means by
// them. Where others may create functions and operators in a schema of the
// session's search_path, those would run with the rights of who migrates. The
// path ends with the transaction: a pooler may hand the session to others.
func inPath(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)"); err != nil {
		return fmt.Errorf("set search_path: %w", err)
	}
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// newEnough reads the version of a schema that may be trusted.
func newEnough(ctx context.Context, tx *sql.Tx) error {
	if err := trust(ctx, tx); err != nil {
		return err
	}
	version, err := installed(ctx, tx)
	if err != nil {
		return err
	}
	if version > Version {
		return fmt.Errorf("schema fence has version %d, newer than the %d of this program: use a newer program", version, Version)
	}
	return nil
}

func installed(ctx context.Context, tx *sql.Tx) (int, error) {
	var exists bool
	if err := tx.QueryRowContext(ctx, "SELECT to_regprocedure('fence.version()') IS NOT NULL").Scan(&exists); err != nil {
		return 0, fmt.Errorf("look for schema fence: %w", err)
	}
	if !exists {
		return 0, nil
	}
	var version int
	if err := tx.QueryRowContext(ctx, "SELECT fence.version()").Scan(&version); err != nil {
		return 0, fmt.Errorf("read version of schema fence: %w", err)
	}
	return version, nil
}

func apply(ctx context.Context, db *sql.DB, notices *notices, progress func(Step)) error {
	var steps []*goose.Migration
	for v := 1; v <= Version; v++ {
		up := func(ctx context.Context, tx *sql.Tx) error {
			step, err := execute(ctx, tx, notices, v, "up")
			if err != nil {
				return err
			}
			tell(progress, step)
			return readVersions(ctx, tx)
		}
		steps = append(steps, goose.NewGoMigration(int64(v), &goose.GoFunc{RunTx: up}, nil))
	}
	store, err := versionStore()
	if err != nil {
		return fmt.Errorf("open table of migrations: %w", err)
	}
	provider, err := goose.NewProvider("", db, nil, goose.WithStore(store), goose.WithGoMigrations(steps...),
		goose.WithDisableGlobalRegistry(true), goose.WithSessionLocker(sessionLock{}), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("prepare migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func execute(ctx context.Context, tx *sql.Tx, notices *notices, version int, way string) (Step, error) {
	start := time.Now()
	text, err := Files.ReadFile(name(version) + "." + way + ".sql")
	if err != nil {
		return Step{}, fmt.Errorf("read migration: %w", err)
	}
	if _, err := tx.ExecContext(ctx, string(text)); err != nil {
		return Step{}, fmt.Errorf("run %s.%s.sql: %w", name(version), way, err)
	}
	return Step{Version: version, Name: name(version), Took: time.Since(start), Notices: notices.take()}, nil
}
