package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

// Files holds the migrations, <number>_<name>.up.sql and .down.sql, for
// whoever runs them with a runner of their own.
//
//go:embed *.sql
var Files embed.FS

// Version is the version of the schema that this program works with; it is
// what fence.version() returns.
const Version = 4

var names = [Version + 1]string{1: "0001_marks", 2: "0002_claim", 3: "0003_check", 4: "0004_protect"}

// Config says how to migrate.
type Config struct {
	// Grant lists roles that may claim, evict and read the marks from now on.
	// Defaults to none: only the owner of the schema may, and superusers.
	Grant []string
	// Progress, if not nil, is told of each migration after it was applied or
	// undone.
	Progress func(Step)
}

// Step is one migration that was applied or undone.
type Step struct {
	Version int
	Name    string
	Took    time.Duration
	// Notices are what the server had to say, in the order it said it.
	Notices []string
}

// State is what Status found in a database.
type State struct {
	// Installed is the version in the database, 0 for none.
	Installed int `json:"installed"`
	// Wanted is Version.
	Wanted int `json:"wanted"`
	// Pending names the migrations that Up would apply.
	Pending []string `json:"pending"`
	// Owner is the role that owns the schema.
	Owner string `json:"owner,omitempty"`
	// Evictable tells whether Owner may end other roles' sessions.
	Evictable bool `json:"evictable"`
	// SelfTest is "ok", or why nothing can be fenced on this server.
	SelfTest string `json:"self_test,omitempty"`
}

// Up brings the schema to Version and grants what c says. It is idempotent;
// concurrent calls wait for each other. Each migration is one transaction: on
// an error, those before it stay applied. An installed version above Version
// is an error.
func Up(ctx context.Context, databaseURL string, c Config) error {
	return run(ctx, databaseURL, func(db *sql.DB, notices *notices) error {
		if err := newEnough(ctx, db); err != nil {
			return err
		}
		if err := ensureSchema(ctx, db); err != nil {
			return err
		}
		if err := apply(ctx, db, notices, c.Progress); err != nil {
			return err
		}
		return grant(ctx, db, c.Grant)
	})
}

// Down removes the schema with all its marks, and by that the triggers of
// protected tables. It is one transaction.
func Down(ctx context.Context, databaseURL string, c Config) error {
	return run(ctx, databaseURL, func(db *sql.DB, notices *notices) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		defer func() { _ = tx.Rollback() }()
		var steps []Step
		for v := Version; v > 0; v-- {
			step, err := execute(ctx, tx, notices, v, "down")
			if err != nil {
				return err
			}
			steps = append(steps, step)
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		for _, step := range steps {
			tell(c.Progress, step)
		}
		return nil
	})
}

// Status looks at the schema and changes nothing.
func Status(ctx context.Context, databaseURL string) (State, error) {
	state := State{Wanted: Version, Pending: []string{}}
	err := run(ctx, databaseURL, func(db *sql.DB, _ *notices) error {
		var err error
		if state.Installed, err = installed(ctx, db); err != nil {
			return err
		}
		for v := state.Installed + 1; v <= Version; v++ {
			state.Pending = append(state.Pending, names[v])
		}
		if state.Installed == 0 {
			return nil
		}
		err = db.QueryRowContext(ctx, `
			SELECT pg_get_userbyid(nspowner), pg_has_role(nspowner, 'pg_signal_backend', 'USAGE')
			  FROM pg_namespace WHERE nspname = 'fence'`).Scan(&state.Owner, &state.Evictable)
		if err != nil {
			return fmt.Errorf("read owner of schema fence: %w", err)
		}
		if state.Installed >= 3 {
			state.SelfTest = selfTest(ctx, db)
		}
		return nil
	})
	return state, err
}

func selfTest(ctx context.Context, db *sql.DB) string {
	if _, err := db.ExecContext(ctx, "SELECT fence.selftest()"); err != nil {
		return err.Error()
	}
	return "ok"
}

// notices collects what the server says beside its replies, until the next
// migration takes it.
type notices struct{ texts []string }

func (n *notices) add(_ *pgconn.PgConn, notice *pgconn.Notice) {
	if !strings.HasPrefix(notice.Message, "fence: ") {
		return // "already exists, skipping" and its like
	}
	text := notice.Message
	if notice.Hint != "" {
		text += ". " + notice.Hint
	}
	n.texts = append(n.texts, text)
}

func (n *notices) take() []string {
	texts := n.texts
	n.texts = nil
	return texts
}

// run calls f with the database at databaseURL. Its errors never carry the
// password: pgx keeps it out of its own.
func run(ctx context.Context, databaseURL string, f func(*sql.DB, *notices) error) error {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return fmt.Errorf("parse database URL: %w", err)
	}
	// Whole files go by the simple protocol, whatever the URL prefers for
	// everything else; a pooler in transaction mode must not matter either.
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	var said notices
	config.OnNotice = said.add
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(2) // the locker's, and the one that works
	if err := db.PingContext(ctx); err != nil {
		return errors.Join(fmt.Errorf("connect to database: %w", err), db.Close())
	}
	return errors.Join(f(db, &said), db.Close())
}

func newEnough(ctx context.Context, db *sql.DB) error {
	version, err := installed(ctx, db)
	if err != nil {
		return err
	}
	if version > Version {
		return fmt.Errorf("schema fence has version %d, newer than the %d of this program: use a newer program", version, Version)
	}
	return nil
}

func installed(ctx context.Context, db *sql.DB) (int, error) {
	var exists bool
	if err := db.QueryRowContext(ctx, "SELECT to_regprocedure('fence.version()') IS NOT NULL").Scan(&exists); err != nil {
		return 0, fmt.Errorf("look for schema fence: %w", err)
	}
	if !exists {
		return 0, nil
	}
	var version int
	if err := db.QueryRowContext(ctx, "SELECT fence.version()").Scan(&version); err != nil {
		return 0, fmt.Errorf("read version of schema fence: %w", err)
	}
	return version, nil
}

// ensureSchema makes the schema for the table of versions, which is there
// before the first migration is.
func ensureSchema(ctx context.Context, db *sql.DB) error {
	var exists bool
	if err := db.QueryRowContext(ctx, "SELECT to_regnamespace('fence') IS NOT NULL").Scan(&exists); err != nil {
		return fmt.Errorf("look for schema fence: %w", err)
	}
	if exists {
		return nil
	}
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS fence"); err != nil {
		return fmt.Errorf("create schema fence: %w", err)
	}
	return nil
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
			return nil
		}
		steps = append(steps, goose.NewGoMigration(int64(v), &goose.GoFunc{RunTx: up}, nil))
	}
	store, err := database.NewStore(database.DialectPostgres, "fence.migrations")
	if err != nil {
		return fmt.Errorf("open table of migrations: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 600))
	if err != nil {
		return fmt.Errorf("make lock of migrations: %w", err)
	}
	provider, err := goose.NewProvider("", db, nil, goose.WithStore(store), goose.WithGoMigrations(steps...),
		goose.WithDisableGlobalRegistry(true), goose.WithSessionLocker(locker), goose.WithLogger(goose.NopLogger()))
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
	text, err := Files.ReadFile(names[version] + "." + way + ".sql")
	if err != nil {
		return Step{}, fmt.Errorf("read migration: %w", err)
	}
	if _, err := tx.ExecContext(ctx, string(text)); err != nil {
		return Step{}, fmt.Errorf("run %s.%s.sql: %w", names[version], way, err)
	}
	return Step{Version: version, Name: names[version], Took: time.Since(start), Notices: notices.take()}, nil
}

func tell(progress func(Step), step Step) {
	if progress != nil {
		progress(step)
	}
}

// grant lets roles claim and evict. Not PUBLIC: one claim of 2^63−1 would
// poison a resource for good.
func grant(ctx context.Context, db *sql.DB, roles []string) error {
	for _, role := range roles {
		if strings.EqualFold(role, "public") {
			return errors.New("grant to PUBLIC: whoever may claim can lock all others out of a resource, so name the roles that need it")
		}
		name := pgx.Identifier{role}.Sanitize()
		// One transaction, and one at a time: the server refuses two that grant the same to somebody.
		_, err := db.ExecContext(ctx, `SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('fence.grant', 7203410));
			SELECT pg_catalog.set_config('role', pg_catalog.pg_get_userbyid(nspowner), true)
			  FROM pg_catalog.pg_namespace WHERE nspname = 'fence';
			GRANT EXECUTE ON FUNCTION fence.claim(text, interval, boolean), fence.evict(text, bigint),
			fence.blockers(text) TO `+name+`; GRANT SELECT ON fence.marks, fence.adoptions TO `+name)
		if err != nil {
			return fmt.Errorf("grant to role %s: %w", name, err)
		}
	}
	return nil
}
