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
)

// Files holds the migrations, <number>_<name>.up.sql and .down.sql, for
// whoever runs them with a runner of their own.
//
//go:embed *.sql
var Files embed.FS

// Version is the version of the schema that this program works with; it is
// what fence.version() returns.
const Version = 5

// Config says how to migrate.
type Config struct {
	// Grant lists roles that may claim, evict and read the marks from now on. If one is
	// not there nothing is done.
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
// is an error, and so is a schema fence that somebody else has made.
func Up(ctx context.Context, databaseURL string, c Config) error {
	return run(ctx, databaseURL, func(db *sql.DB, notices *notices) error {
		err := inPath(ctx, db, func(tx *sql.Tx) error {
			if err := grantable(ctx, tx, c.Grant); err != nil {
				return err
			}
			return ensureSchema(ctx, tx)
		})
		if err != nil {
			return err
		}
		err = inPath(ctx, db, func(tx *sql.Tx) error {
			if err := newEnough(ctx, tx); err != nil {
				return err
			}
			return readVersions(ctx, tx)
		})
		if err != nil {
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
		var steps []Step
		err := inPath(ctx, db, func(tx *sql.Tx) error {
			from := Version
			switch there, err := schemaExists(ctx, tx); {
			case err != nil:
				return err
			case !there:
				from = 1 // the role
			default:
				if err := trust(ctx, tx); err != nil {
					return err
				}
			}
			for v := from; v > 0; v-- {
				step, err := execute(ctx, tx, notices, v, "down")
				if err != nil {
					return err
				}
				steps = append(steps, step)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, step := range steps {
			tell(c.Progress, step)
		}
		return nil
	})
}

// Status looks at the schema and changes nothing. A superuser is refused where
// the schema may have what others have put there, as by Up and Down.
func Status(ctx context.Context, databaseURL string) (State, error) {
	state := State{Wanted: Version, Pending: []string{}}
	err := run(ctx, databaseURL, func(db *sql.DB, _ *notices) error {
		err := inPath(ctx, db, func(tx *sql.Tx) error { return look(ctx, tx, &state) })
		if err == nil && state.Installed >= 3 {
			state.SelfTest = selfTest(ctx, db)
		}
		return err
	})
	return state, err
}

func look(ctx context.Context, tx *sql.Tx, state *State) error {
	there, err := schemaExists(ctx, tx)
	if err != nil {
		return err
	}
	if there {
		if err := trustIfSuperuser(ctx, tx); err != nil {
			return err
		}
		if state.Installed, err = installed(ctx, tx); err != nil {
			return err
		}
	}
	for v := state.Installed + 1; v <= Version; v++ {
		state.Pending = append(state.Pending, name(v))
	}
	if state.Installed == 0 {
		return nil
	}
	err = tx.QueryRowContext(ctx, `
		SELECT pg_get_userbyid(nspowner), pg_has_role(nspowner, 'pg_signal_backend', 'USAGE')
		  FROM pg_namespace WHERE nspname = 'fence'`).Scan(&state.Owner, &state.Evictable)
	if err != nil {
		return fmt.Errorf("read owner of schema fence: %w", err)
	}
	return nil
}

func selfTest(ctx context.Context, db *sql.DB) string {
	err := inPath(ctx, db, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "SELECT fence.selftest()")
		return err
	})
	if err != nil {
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

func tell(progress func(Step), step Step) {
	if progress != nil {
		progress(step)
	}
}
