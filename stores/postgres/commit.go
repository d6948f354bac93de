package pgstore

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// commit sends the checks and COMMIT in one message and reads whether it was
// committed. A check that raises makes the server skip COMMIT.
func (w *work) commit(ctx context.Context) error {
	tag, err := w.sendCommit(ctx)
	switch {
	case err != nil:
		return w.commitFailed(ctx, err)
	case tag == "ROLLBACK":
		return notApplied("commit", pgx.ErrTxCommitRollback)
	case tag != commitTag:
		return w.settled("commit", unexpectedTagError(tag))
	}
	for _, f := range w.fresh {
		w.store.claims.renew(f.token, f.ticket)
	}
	return nil
}

func (w *work) commitFailed(ctx context.Context, err error) error {
	w.rollback(ctx)
	w.doubt(err)
	if isError(err, noSuchStatement) {
		w.unprepare(ctx)
	}
	return w.settled("commit", w.refusal(w.store.explain(err)))
}

// doubt forgets the claims whose tickets an error speaks against: in a
// database that was restored or installed anew the oid of a sequence may be
// nobody's or another's, so that each check with it would fail. The next
// transaction claims again. (A refusal ends in Store.refused.)
func (w *work) doubt(err error) {
	if !isError(err, noSuchRelation, wrongObject, noPrivilege) {
		return
	}
	for _, g := range w.grants[w.passed:] {
		w.store.claims.forget(g.token)
	}
}

func (w *work) sendCommit(ctx context.Context) (tag string, err error) {
	pg := w.conn.PgConn()
	if !w.session.prepares || w.tx.forgot {
		return simple(ctx, pg, w.commitMessage(), w.collect)
	}
	check, commit, err := w.checkAndCommit(ctx)
	if err != nil {
		return "", unsentError{err}
	}
	batch := &pgconn.Batch{}
	for i := range w.grants {
		g := &w.grants[i]
		seq, epoch := binary.BigEndian.AppendUint32(nil, g.ticket.seq), binary.BigEndian.AppendUint64(nil, g.ticket.epoch)
		batch.ExecStatement(check, [][]byte{seq, epoch, []byte(g.text)}, []int16{1, 1, 0}, nil)
	}
	batch.ExecStatement(commit, nil, nil, nil)
	return exchange(ctx, pg, func() *pgconn.MultiResultReader { return pg.ExecBatch(ctx, batch) }, w.collect)
}

// commitMessage is what commit sends by the simple protocol.
func (w *work) commitMessage() string {
	var b strings.Builder
	for _, g := range w.grants {
		b.WriteString(g.check(w.shared))
		b.WriteByte(';')
	}
	b.WriteString("commit")
	return b.String()
}

// collect reads the row of the i-th check: a ticket, if the grant's did not
// match and the database had to decide.
func (w *work) collect(i int, row [][]byte) error {
	if i >= len(w.grants) {
		return nil
	}
	w.passed = i + 1
	if len(row) != 1 {
		return nil
	}
	if t, err := parseTicket(row[0]); err == nil { // otherwise the next check asks again
		w.fresh = append(w.fresh, fresh{w.grants[i].token, t})
	}
	return nil
}

// check is the check of one token with its values in it.
func (g grant) check(shared bool) string {
	return check(literal(g.ticket.seq), literal(g.ticket.epoch), "'"+g.text+"'", shared)
}
