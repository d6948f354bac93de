package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Exec runs one statement in a fenced transaction of its own, in one network
// round trip. It is SendBatch of one.
func (s *Store) Exec(ctx context.Context, token guard.Token, sql string, args ...any) (pgconn.CommandTag, error) {
	var b pgx.Batch
	var tag pgconn.CommandTag
	b.Queue(sql, args...).Exec(func(t pgconn.CommandTag) error {
		tag = t
		return nil
	})
	if err := s.SendBatch(ctx, token, &b); err != nil {
		return pgconn.CommandTag{}, err
	}
	return tag, nil
}

// SendBatch runs the statements of b in one fenced transaction, in one network
// round trip: BEGIN, the statements, the check and COMMIT. Results go to the
// callbacks of the queued queries. They come with the reply to it all: a
// callback that returns an error stops those after it, but cannot undo the
// transaction; the error of SendBatch then has the outcome that the
// transaction had. b is read, not used up.
//
// Each text is one statement, none begins or ends a transaction, and none may
// need to be outside of one. Errors are those of InTx.
func (s *Store) SendBatch(ctx context.Context, token guard.Token, b *pgx.Batch) error {
	w, err := s.plan(ctx, token, &TxOptions{})
	if err != nil {
		return s.refused(ctx, err)
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return notApplied("acquire connection", err)
	}
	defer conn.Release()
	w.conn, w.session = conn.Conn(), sessionOf(conn.Conn())
	if b, err = w.admitBatch(ctx, b); err != nil {
		return s.refused(ctx, err)
	}
	run := batchRun{work: w}
	err = run.send(ctx, b)
	if !run.begun && isError(err, noSuchStatement) {
		err = run.send(ctx, b) // the session was reset behind our back; pgx knows by now
	}
	return s.refused(ctx, err)
}

// batchRun is a batch on its way.
type batchRun struct {
	*work
	begun     bool
	committed bool
	failed    error // of a callback, or of the query that it read
}

func (r *batchRun) send(ctx context.Context, b *pgx.Batch) error {
	results := r.conn.SendBatch(ctx, r.queue(b))
	pg := r.conn.PgConn()
	sent := pg.IsBusy() || pg.IsClosed()
	err := results.Close()
	if r.committed {
		for _, f := range r.fresh {
			r.store.claims.renew(f.token, f.ticket)
		}
		if r.failed != nil {
			return appliedError{r.failed}
		}
		return nil
	}
	if err == nil {
		err = r.failed
	}
	if err == nil {
		err = errors.New("no reply to COMMIT")
	}
	r.rollback(ctx)
	r.doubt(err)
	var unqueued pgx.ErrPreprocessingBatch
	if !sent || errors.As(err, &unqueued) {
		err = unsentError{r.store.explain(err)}
	}
	return r.settled("run batch", r.refusal(err))
}

// queue puts the batch between BEGIN and COMMIT.
func (r *batchRun) queue(b *pgx.Batch) *pgx.Batch {
	out := &pgx.Batch{}
	out.Queue(r.begins).Exec(func(pgconn.CommandTag) error {
		r.begun = true
		return nil
	})
	g := r.grants[0]
	if !r.store.config.Lean {
		seq, epoch := g.ticket.presence()
		out.Queue(enterSQL, g.text, seq, epoch)
	}
	for _, q := range b.QueuedQueries {
		out.QueuedQueries = append(out.QueuedQueries, r.wrap(q))
	}
	out.Queue(check("$1::pg_catalog.oid", "$2", "$3", r.shared), g.ticket.seq, g.ticket.epoch, g.text).Query(func(rows pgx.Rows) error {
		var row [][]byte
		if rows.Next() {
			row = rows.RawValues() // of a text, the same in both formats
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return r.collect(0, row)
	})
	out.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		r.committed = tag.String() == commitTag
		return nil
	})
	return out
}

// wrap keeps the error of a callback from pgx, which would then not read on to
// the reply to COMMIT.
func (r *batchRun) wrap(q *pgx.QueuedQuery) *pgx.QueuedQuery {
	wrapped := &pgx.QueuedQuery{SQL: q.SQL, Arguments: q.Arguments}
	if q.Fn == nil {
		return wrapped
	}
	wrapped.Fn = func(results pgx.BatchResults) error {
		if r.failed != nil {
			_, err := results.Exec()
			return err
		}
		r.failed = q.Fn(results)
		return nil
	}
	return wrapped
}

// appliedError is the error of a callback of a batch that was committed.
type appliedError struct{ err error }

func (e appliedError) Error() string          { return "batch was applied: " + e.err.Error() }
func (e appliedError) Unwrap() error          { return e.err }
func (e appliedError) Outcome() guard.Outcome { return guard.Applied }
