package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/sqltext"
)

// admit refuses a statement that would end the transaction, however it is
// named to pgx: by its text, by the name of a prepared statement, or by a
// rewriter among args, which it returns as they are to be passed on.
func (tx *fencedTx) admit(ctx context.Context, sql string, args []any) ([]any, error) {
	rewritten, args := admitRewriter(args, tx.admitText)
	if rewritten {
		if tx.closed {
			return nil, pgx.ErrTxClosed
		}
		return args, nil
	}
	return args, tx.admitText(ctx, sql)
}

func (tx *fencedTx) admitText(ctx context.Context, sql string) error {
	if tx.closed {
		return pgx.ErrTxClosed
	}
	if strings.IndexByte(sql, ';') < 0 {
		statement := sqltext.First(sql, sqltext.Dialect{})
		if !statement.IsCommand() {
			return tx.admitNamed(ctx, sql)
		}
		return tx.admitStatement(&statement)
	}
	for statement := range sqltext.Statements(sql, dialectOf(tx.conn)) {
		if err := tx.admitStatement(&statement); err != nil {
			return err
		}
	}
	return nil
}

func (tx *fencedTx) admitNamed(ctx context.Context, name string) error {
	text, err := tx.session.preparedText(ctx, name)
	if err != nil {
		return err
	}
	statement := sqltext.First(text, sqltext.Dialect{})
	return tx.admitStatement(&statement)
}

func (tx *fencedTx) admitStatement(statement *sqltext.Statement) error {
	switch {
	case statement.EndsTransaction():
		return &guard.RefusedError{Reason: unsupportedError{statement.Verb() + " inside fn: " + errStoreEnds.Error()}}
	case statement.ImportsSnapshot():
		// The past is what the new holder must not read (I9).
		return &guard.RefusedError{Reason: unsupportedError{"SET TRANSACTION SNAPSHOT: the snapshot may be older than the claim"}}
	}
	tx.forgot = tx.forgot || statement.Forgets()
	return nil
}

func dialectOf(conn *pgx.Conn) sqltext.Dialect {
	return sqltext.Dialect{BackslashQuotes: conn.PgConn().ParameterStatus("standard_conforming_strings") == "off"}
}

// admitBatch refuses what may not stand between BEGIN and COMMIT.
func (w *work) admitBatch(ctx context.Context, b *pgx.Batch) (*pgx.Batch, error) {
	if beginsTx(b) {
		return nil, errBatchBegins
	}
	admitted := &pgx.Batch{QueuedQueries: make([]*pgx.QueuedQuery, 0, len(b.QueuedQueries))}
	for _, q := range b.QueuedQueries {
		rewritten, args := admitRewriter(q.Arguments, w.admitSingle)
		if !rewritten {
			if err := w.admitSingle(ctx, q.SQL); err != nil {
				return nil, err
			}
		}
		admitted.QueuedQueries = append(admitted.QueuedQueries, &pgx.QueuedQuery{SQL: q.SQL, Arguments: args, Fn: q.Fn})
	}
	return admitted, nil
}

// admitSingle refuses all but one statement that neither begins nor ends a
// transaction.
func (w *work) admitSingle(ctx context.Context, sql string) error {
	n := 0
	for statement := range sqltext.Statements(sql, sqltext.Dialect{}) {
		n++
		if !statement.IsCommand() {
			text, err := w.session.preparedText(ctx, sql)
			if err != nil {
				return notApplied("look for prepared statement", err)
			}
			statement = sqltext.First(text, sqltext.Dialect{})
		}
		switch {
		case statement.EndsTransaction(), statement.BeginsTransaction():
			return w.unsupported(statement.Verb() + " in a batch: the store begins and commits")
		case statement.ImportsSnapshot():
			return w.unsupported("SET TRANSACTION SNAPSHOT: the snapshot may be older than the claim")
		}
	}
	if n != 1 {
		return w.unsupported(fmt.Sprintf("a text of %d statements in a batch", n))
	}
	return nil
}

// admitRewriter puts itself behind the rewriter among the options that pgx
// takes before the arguments proper, and reports whether there is one. What is
// sent is then what it returns.
func admitRewriter(args []any, admit func(ctx context.Context, sql string) error) (found bool, admitted []any) {
	for i, arg := range args {
		switch a := arg.(type) {
		case pgx.QueryResultFormats, pgx.QueryResultFormatsByOID, pgx.QueryExecMode:
		case pgx.QueryRewriter:
			if !found {
				args = slices.Clone(args)
			}
			found, args[i] = true, admittedRewriter{a, admit}
		default:
			return found, args
		}
	}
	return found, args
}

// admittedRewriter is a rewriter whose statement is admitted before it is sent.
type admittedRewriter struct {
	pgx.QueryRewriter

	admit func(ctx context.Context, sql string) error
}

// RewriteQuery implements pgx.QueryRewriter.
func (r admittedRewriter) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, args []any) (newSQL string, newArgs []any, err error) {
	newSQL, newArgs, err = r.QueryRewriter.RewriteQuery(ctx, conn, sql, args)
	if err == nil {
		err = r.admit(ctx, newSQL)
	}
	return newSQL, newArgs, err
}

// maxNames bounds how many names of prepared statements a session remembers.
const maxNames = 256

// preparedText returns the text of the statement that is prepared under a
// name, "" if none is. It asks the server once for each name: pgx keeps a name
// with its text to itself.
func (s *session) preparedText(ctx context.Context, name string) (string, error) {
	if text, ok := s.named[name]; ok {
		return text, nil
	}
	var text string
	err := s.conn.QueryRow(ctx, "select statement from pg_catalog.pg_prepared_statements where name = $1", name).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil // no more than a syntax error
	}
	if err != nil {
		return "", err
	}
	if s.named == nil || len(s.named) >= maxNames {
		s.named = map[string]string{}
	}
	s.named[name] = text
	return text, nil
}
