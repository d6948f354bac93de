package pgstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/sqltext"
)

// work is one fenced transaction, from its plan to its end.
type work struct {
	store   *Store
	one     [1]grant // what grants is made of for one token
	grants  []grant  // in the order of resources: checks wait for claims in one order, so never for each other
	shared  bool     // a shared token is among them
	begins  string   // the text of BEGIN
	plain   bool     // BEGIN must go by the simple protocol
	track   bool
	xact    xact
	conn    *pgx.Conn
	session *session
	tx      *fencedTx
	passed  int // checks
	fresh   []fresh
}

// fresh is a ticket to remember once COMMIT was acknowledged.
type fresh struct {
	token  guard.Token
	ticket ticket
}

func sorted(token guard.Token, also []guard.Token) []grant {
	grants := make([]grant, 0, 1+len(also))
	grants = append(grants, grant{token: token})
	for _, t := range also {
		grants = append(grants, grant{token: t})
	}
	slices.SortFunc(grants, func(a, b grant) int { return cmp.Compare(a.token.Resource, b.token.Resource) })
	return grants
}

// open reads what the transaction begins with.
func (w *work) open(o *pgx.TxOptions) error {
	if len(w.grants) > 1 {
		tokens := make([]guard.Token, len(w.grants))
		for i, g := range w.grants {
			tokens[i] = g.token
		}
		if err := guard.ValidateList(tokens); err != nil {
			return err
		}
	}
	for _, g := range w.grants {
		w.shared = w.shared || g.token.Mode == guard.Shared
	}
	if o.CommitQuery != "" {
		return w.unsupported("CommitQuery: the store commits")
	}
	if o.BeginQuery != "" {
		w.begins, w.plain = o.BeginQuery, true
		return w.admitBegin()
	}
	mode := o.AccessMode
	if w.shared {
		if mode == pgx.ReadWrite {
			return w.refuse(guard.ErrReadOnly)
		}
		mode = pgx.ReadOnly
	}
	w.begins = beginText(o.IsoLevel, mode, o.DeferrableMode)
	return nil
}

// admitBegin refuses a BeginQuery behind which the store's own statements
// would not be in the transaction that it begins.
func (w *work) admitBegin() error {
	n := 0
	for statement := range sqltext.Statements(w.begins, sqltext.Dialect{}) {
		if (n == 0) != statement.BeginsTransaction() || statement.EndsTransaction() || statement.ImportsSnapshot() {
			return w.unsupported("BeginQuery: it must begin one transaction")
		}
		n++
	}
	if n == 0 || sqltext.Open(w.begins+"\n", sqltext.Dialect{}) {
		return w.unsupported("BeginQuery: it must begin one transaction")
	}
	if w.shared {
		w.begins += "\n;set transaction read only"
	}
	return nil
}

func beginText(level pgx.TxIsoLevel, access pgx.TxAccessMode, deferrable pgx.TxDeferrableMode) string {
	if level == "" && access == "" && deferrable == "" {
		return "begin"
	}
	words := []string{"begin"}
	if level != "" {
		words = append(words, "isolation level", string(level))
	}
	if access != "" {
		words = append(words, string(access))
	}
	if deferrable != "" {
		words = append(words, string(deferrable))
	}
	return strings.Join(words, " ")
}

// begin begins the transaction on conn, in one message.
func (w *work) begin(ctx context.Context, conn *pgx.Conn) error {
	w.conn, w.session = conn, sessionOf(conn)
	err := w.sendBegin(ctx)
	if isError(err, noSuchStatement) {
		// The session was reset behind our back (DISCARD ALL). Nothing has run.
		w.rollback(ctx)
		w.unprepare(ctx)
		err = w.sendBegin(ctx)
	}
	if err == nil && conn.PgConn().TxStatus() != 'T' {
		err = errors.New("no transaction was begun")
	}
	if err == nil {
		return nil
	}
	w.rollback(ctx)
	return notApplied("begin", w.refusal(w.store.explain(err)))
}

func (w *work) sendBegin(ctx context.Context) error {
	pg := w.conn.PgConn()
	if !w.session.prepares || w.plain {
		_, err := simple(ctx, pg, w.beginMessage(), w.learn)
		return err
	}
	begin, err := w.command(ctx, beginPrefix+w.begins, w.begins)
	if err != nil {
		return err
	}
	if _, _, err := w.checkAndCommit(ctx); err != nil { // rather now than between fn and COMMIT
		return err
	}
	batch := &pgconn.Batch{}
	batch.ExecStatement(begin, nil, nil, nil)
	if !w.store.config.Lean {
		if err := w.enter(ctx, batch); err != nil {
			return err
		}
	}
	if w.track && !w.shared {
		batch.ExecParams(trackSQL, nil, nil, nil, nil)
	}
	_, err = exchange(ctx, pg, func() *pgconn.MultiResultReader { return pg.ExecBatch(ctx, batch) }, w.learn)
	return err
}

func (w *work) enter(ctx context.Context, batch *pgconn.Batch) error {
	enter, err := w.prepare(ctx, enterName, enterSQL)
	if err != nil {
		return err
	}
	seq, epoch := key(w.grants[0].ticket)
	batch.ExecStatement(enter, [][]byte{[]byte(w.tokens()), seq, epoch}, []int16{0, 1, 1}, nil)
	for _, g := range w.grants[1:] {
		presence, err := w.prepare(ctx, presenceName, presenceSQL)
		if err != nil {
			return err
		}
		seq, epoch := key(g.ticket)
		batch.ExecStatement(presence, [][]byte{seq, epoch}, []int16{1}, nil)
	}
	return nil
}

// tokens is the value of fence.token.
func (w *work) tokens() string {
	if len(w.grants) == 1 {
		return w.grants[0].text
	}
	texts := make([]string, len(w.grants))
	for i, g := range w.grants {
		texts[i] = g.text
	}
	return strings.Join(texts, ",")
}

// beginMessage is what begin sends by the simple protocol. A token has no
// character that a literal would have to escape.
func (w *work) beginMessage() string {
	if w.store.config.Lean && !w.track {
		return w.begins
	}
	var b strings.Builder
	b.WriteString(w.begins)
	if !w.store.config.Lean {
		b.WriteString("\n;select pg_catalog.set_config('fence.token', '" + w.tokens() + "', true)")
		for _, g := range w.grants {
			seq, epoch := g.ticket.presence()
			b.WriteString(", pg_catalog.pg_advisory_xact_lock_shared(" + literal(seq) + "::pg_catalog.int4, " + literal(epoch) + "::pg_catalog.int4)")
		}
	}
	if w.track && !w.shared {
		b.WriteString("\n;" + trackSQL)
	}
	return b.String()
}

// learn reads the row of trackSQL, the only one of three columns.
func (w *work) learn(_ int, row [][]byte) error {
	if len(row) == 3 && w.track && !w.shared {
		w.xact = xact{id: string(row[0]), checkpoint: string(row[1]), timeline: string(row[2])}
	}
	return nil
}

// rollbackLimit bounds a rollback, which does not end with the caller's ctx:
// otherwise every ctx that ends would cost a connection.
const rollbackLimit = 5 * time.Second

// rollback ends what is left of the transaction, by ending its connection if
// need be. PostgreSQL commits nothing of a transaction that it was not told to
// commit.
func (w *work) rollback(ctx context.Context) {
	pg := w.conn.PgConn()
	if pg.IsClosed() || pg.TxStatus() == 'I' && !pg.IsBusy() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	if _, err := simple(ctx, pg, "rollback", nil); err != nil {
		cancel() // no farewell that could block
		_ = w.conn.Close(ctx)
	}
}

// key is a presence as the parameters of a Bind.
func key(t ticket) (seq, epoch []byte) {
	return binary.BigEndian.AppendUint32(nil, t.seq), binary.BigEndian.AppendUint64(nil, t.epoch)[4:]
}
