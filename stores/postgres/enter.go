package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Enter admits token and holds its fence until Exit of the entry: a newer
// claim waits for it. It is for work outside of the database, behind httpguard
// for example; it is a transaction that checks first and writes nothing, and
// it pins one connection of the pool until then.
//
// What it cannot do is stop the work: a newer claim that evicts, a lost
// connection or a server that restarts end the fence while the work goes on.
// Bound the work in time, below the ClaimWait of those who evict.
func (s *Store) Enter(ctx context.Context, token guard.Token) (guard.Entry, error) {
	w, err := s.plan(ctx, token, &TxOptions{})
	if err != nil {
		return nil, s.refused(ctx, err)
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, notApplied("acquire connection", err)
	}
	w.conn, w.session = conn.Conn(), sessionOf(conn.Conn())
	// READ COMMITTED, so that a check that waited for a claim sees it.
	w.begins = "begin isolation level read committed read only;" + noTimeouts("idle_in_transaction_session_timeout", "transaction_timeout")
	message := w.beginMessage() + "\n;" + w.grants[0].check(w.shared)
	if _, err := simple(ctx, w.conn.PgConn(), message, nil); err != nil {
		w.rollback(ctx)
		w.doubt(err)
		conn.Release()
		return nil, s.refused(ctx, notApplied("enter", w.refusal(s.explain(err))))
	}
	return &entry{work: w, pooled: conn}, nil
}

// entry is a transaction that holds a fence.
type entry struct {
	work   *work
	pooled *pgxpool.Conn
}

// Exit ends the transaction.
func (e *entry) Exit() {
	e.work.rollback(context.Background())
	e.pooled.Release()
}
