package pgstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Blocker is an open transaction that a claim of a resource has to wait for,
// or whose row locks may block its new holder.
type Blocker struct {
	// PID is the server process of its session, 0 for a prepared transaction.
	PID int
	// Prepared is the name of a prepared transaction, "" for a session. Only
	// ROLLBACK PREPARED or COMMIT PREPARED can end it.
	Prepared string
	// User is the role of the session.
	User string
	// State is what the session does, as in pg_stat_activity; "" if the owner
	// of the schema may not see it.
	State string
	// Since is when the transaction began, or was prepared; zero if unknown.
	Since time.Time
	// Evictable reports whether Evict can end it.
	Evictable bool
}

// Evict ends the sessions whose open transactions hold resource under numbers
// below below, or under an admission that has ended, and returns their process
// ids. It needs the eviction grant of the migrations; whom it cannot end stays
// among the Blockers.
func (s *Store) Evict(ctx context.Context, resource string, below int64) ([]int, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return collect(ctx, s, s.pool, "evict", pgx.RowTo[int], "select fence.evict($1, $2)", resource, below)
}

// Blockers returns the open transactions that a claim of resource would have
// to wait for now.
func (s *Store) Blockers(ctx context.Context, resource string) ([]Blocker, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return s.blockers(ctx, s.pool, resource)
}

func (s *Store) blockers(ctx context.Context, db querier, resource string) ([]Blocker, error) {
	return collect(ctx, s, db, "read blockers", func(row pgx.CollectableRow) (Blocker, error) {
		var b Blocker
		var since *time.Time
		err := row.Scan(&b.PID, &b.Prepared, &b.User, &b.State, &since, &b.Evictable)
		if since != nil {
			b.Since = *since
		}
		return b, err
	}, `select coalesce(b.pid, 0), coalesce(b.gid, ''), coalesce(b.usename, '')::pg_catalog.text, coalesce(b.state, ''), b.xact_start, b.evictable
		from fence.blockers($1) b order by b.pid, b.gid`, resource)
}

// Protect makes table and its partitions refuse by themselves every write
// without a current exclusive token for resource, whatever client it comes
// from. The pool's role must own the table. Run it again after a partition was
// attached.
func (s *Store) Protect(ctx context.Context, table pgx.Identifier, resource string) error {
	if err := guard.ValidateResource(resource); err != nil {
		return err
	}
	return s.act(ctx, "protect table", "select fence.protect($1::pg_catalog.text::pg_catalog.regclass, $2)", table.Sanitize(), resource)
}

// Unprotect undoes Protect.
func (s *Store) Unprotect(ctx context.Context, table pgx.Identifier) error {
	return s.act(ctx, "unprotect table", "select fence.unprotect($1::pg_catalog.text::pg_catalog.regclass)", table.Sanitize())
}

func (s *Store) act(ctx context.Context, doing, sql string, args ...any) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// Mark returns what resource remembers; the zero Mark if nobody has ever
// claimed it.
func (s *Store) Mark(ctx context.Context, resource string) (guard.Mark, error) {
	if err := s.ready(ctx); err != nil {
		return guard.Mark{}, err
	}
	marks, err := collect(ctx, s, s.pool, "read mark", func(row pgx.CollectableRow) (guard.Mark, error) {
		var m guard.Mark
		err := row.Scan(&m.Issuer, &m.Generation, &m.Writer, &m.Holder, &m.Reader)
		return m, err
	}, "select k.issuer, k.generation, k.writer, k.holder, k.reader from fence.marks k where k.resource = $1", resource)
	if err != nil || len(marks) == 0 {
		return guard.Mark{}, err
	}
	return marks[0], nil
}

// querier is a pool or a connection.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func collect[T any](ctx context.Context, s *Store, db querier, doing string, to pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, _ := db.Query(ctx, sql, args...) // its error is that of the rows
	all, err := pgx.CollectRows(rows, to)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, s.explain(err))
	}
	return all, nil
}

// schemaVersion is the first version of the schema fence that has all that
// this package calls. Later ones only add to it.
const schemaVersion = 4

// ready makes sure, once, that the schema of the database is as new as this
// program needs it, and that the server does what the fence rests on.
func (s *Store) ready(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return notApplied("acquire connection", err)
	}
	defer conn.Release()
	version := 0
	_, err = simple(ctx, conn.Conn().PgConn(), "select fence.version();select fence.selftest()", func(statement int, row [][]byte) (err error) {
		if statement == 0 {
			version, err = strconv.Atoi(string(row[0]))
		}
		return err
	})
	switch {
	case version != 0 && version < schemaVersion:
		err = fmt.Errorf("schema fence has version %d, this program needs %d: run \"fenceproxy migrate up\"", version, schemaVersion)
	case err != nil:
		err = fmt.Errorf("look for schema fence: %w", s.explain(err))
	default:
		s.checked.Store(true)
		return nil
	}
	return notApplied("", (&work{grants: make([]grant, 1)}).refusal(err))
}
