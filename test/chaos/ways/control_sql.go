package ways

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// The control group in Postgres: what people write who think that it is a fence.
// Its marks are in a table of its own.

// ControlTables is the SQL that makes that table, for a role.
func ControlTables(role string) string {
	return "CREATE TABLE control_marks (resource text PRIMARY KEY, number bigint NOT NULL); GRANT ALL ON control_marks TO " + role
}

// lock takes the advisory lock of a resource to the end of the transaction, in
// the mode "" or "_shared".
const lock = "SELECT pg_advisory_xact_lock%s(hashtextextended('%s', 0))"

// controlWay claims under an exclusive advisory lock, as it should be, and writes
// in one of several wrong ways.
type controlWay struct {
	url   string
	dice  *rand.Rand
	write func(t *controlTenure, ctx context.Context, e history.Entry, pause func()) (history.State, error)
}

func control(write func(*controlTenure, context.Context, history.Entry, func()) (history.State, error)) func(Access, *rand.Rand) Way {
	return func(a Access, dice *rand.Rand) Way { return &controlWay{a.Postgres, dice, write} }
}

func (w *controlWay) Close() {}

func (w *controlWay) Enter(ctx context.Context, token guard.Token, r Register) (Tenure, error) {
	conn, err := pgx.Connect(ctx, w.url)
	if err != nil {
		return nil, answered(err, false)
	}
	t := &controlTenure{pgxTenure{conn, r, w.dice}, token, w.write}
	_, err = block(ctx, conn, pgx.ReadCommitted, func() (s history.State, err error) {
		if _, err := conn.Exec(ctx, fmt.Sprintf(lock, "", token.Resource)); err != nil {
			return s, err
		}
		tag, err := conn.Exec(ctx, `INSERT INTO control_marks AS m VALUES ($1, $2)
			ON CONFLICT (resource) DO UPDATE SET number = excluded.number WHERE m.number <= excluded.number`, token.Resource, token.Number)
		if err == nil && tag.RowsAffected() == 0 {
			err = stale(token)
		}
		return s, err
	})
	if err != nil {
		t.Leave()
		return nil, err
	}
	return t, nil
}

func stale(token guard.Token) error {
	return &guard.RefusedError{Reason: guard.ErrStale, Token: token}
}

type controlTenure struct {
	pgxTenure
	token guard.Token
	write func(*controlTenure, context.Context, history.Entry, func()) (history.State, error)
}

func (t *controlTenure) Write(ctx context.Context, e history.Entry, pause func()) (history.State, error) {
	return t.write(t, ctx, e, pause)
}

// current compares the token with the mark that can be seen.
func (t *controlTenure) current(ctx context.Context) error {
	var newest int64
	if err := t.conn.QueryRow(ctx, "SELECT number FROM control_marks WHERE resource = $1", t.token.Resource).Scan(&newest); err != nil {
		return err
	}
	if newest != t.token.Number {
		return stale(t.token)
	}
	return nil
}

var (
	// openUnchecked: the lock is enough.
	openUnchecked = control(func(t *controlTenure, ctx context.Context, e history.Entry, pause func()) (history.State, error) {
		pause()
		s, err := t.at.put(ctx, t.conn, e, t.dice)
		if err != nil {
			err = answered(err, true)
		}
		return s, err
	})

	// openLookFirst: it is checked, and then it is written.
	openLookFirst = control(func(t *controlTenure, ctx context.Context, e history.Entry, pause func()) (history.State, error) {
		if err := t.current(ctx); err != nil {
			return history.State{}, answered(err, false)
		}
		pause()
		s, err := t.at.put(ctx, t.conn, e, t.dice)
		if err != nil {
			err = answered(err, true)
		}
		return s, err
	})

	// openSnapshotCheck: it is checked under a lock that keeps claims out, but in a
	// snapshot that was taken before the lock.
	openSnapshotCheck = control(func(t *controlTenure, ctx context.Context, e history.Entry, pause func()) (history.State, error) {
		return block(ctx, t.conn, pgx.RepeatableRead, func() (history.State, error) {
			if _, err := t.conn.Exec(ctx, "SELECT count(*) FROM register_"+t.at.Table); err != nil {
				return history.State{}, err
			}
			pause()
			if _, err := t.conn.Exec(ctx, fmt.Sprintf(lock, "_shared", t.token.Resource)); err != nil {
				return history.State{}, err
			}
			if err := t.current(ctx); err != nil {
				return history.State{}, err
			}
			return t.at.put(ctx, t.conn, e, t.dice)
		})
	})
)
