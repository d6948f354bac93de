package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
)

// The prepared statements of a connection whose queries are prepared.
const (
	beginPrefix     = "fenceproxy "
	enterName       = "fenceproxy_enter"
	presenceName    = "fenceproxy_presence"
	checkName       = "fenceproxy_check"
	checkSharedName = "fenceproxy_check_shared"
	commitName      = "fenceproxy_commit"
)

// prepare returns a statement that is prepared on the connection, as pgx knows
// it: what fn makes pgx forget is prepared again.
func (w *work) prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	return w.conn.Prepare(ctx, name, sql)
}

// command is prepare for BEGIN and COMMIT. Since they return no rows, pgconn
// would ask the server each time what they return; the field that keeps it
// from that is never read.
func (w *work) command(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	sd, err := w.conn.Prepare(ctx, name, sql)
	if err != nil {
		return nil, err
	}
	if known, ok := w.session.commands[sd]; ok {
		return known, nil
	}
	if len(w.session.commands) >= maxCommands {
		clear(w.session.commands)
	}
	undescribed := &pgconn.StatementDescription{Name: sd.Name, SQL: sd.SQL, Fields: make([]pgconn.FieldDescription, 1)}
	w.session.commands[sd] = undescribed
	return undescribed, nil
}

// maxCommands bounds what a connection keeps of those: all 45 ways to begin, and
// some.
const maxCommands = 64

// checkAndCommit returns what the transaction ends with.
func (w *work) checkAndCommit(ctx context.Context) (check, commit *pgconn.StatementDescription, err error) {
	name, sql := checkName, preparedCheck
	if w.shared {
		name, sql = checkSharedName, preparedCheckShared
	}
	if check, err = w.prepare(ctx, name, sql); err != nil {
		return nil, nil, err
	}
	commit, err = w.command(ctx, commitName, "commit")
	return check, commit, err
}

// unprepare forgets the prepared statements, after the server has.
func (w *work) unprepare(ctx context.Context) {
	for _, name := range []string{beginPrefix + w.begins, enterName, presenceName, checkName, checkSharedName, commitName} {
		if w.conn.IsClosed() || w.conn.Deallocate(ctx, name) != nil {
			return
		}
	}
}
