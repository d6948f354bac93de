package migrations_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// domains are the types of the parameters of a check within Bind, by name.
type domains []string

var (
	first    = domains{"holds_token", "holds_ticket"}
	last     = domains{"bound_token", "holds_ticket"}
	lastSlow = domains{"bound_token", "leaves"}
	enters   = domains{"enters"}
	present  = domains{"present"}
	refuses  = domains{"refusal"}
)

// statement is what the empty statement of these parameters is called.
func (ds domains) statement() string { return "_" + strings.Join(ds, "_") }

// prepare gives a connection the empty statement, as a proxy does.
func (ds domains) prepare(ctx context.Context, conn *pgx.Conn) error {
	oids := make([]uint32, len(ds))
	for i, name := range ds {
		if err := conn.QueryRow(ctx, "select 'fence."+name+"'::regtype::oid").Scan(&oids[i]); err != nil {
			return err
		}
	}
	_, err := conn.PgConn().Prepare(ctx, ds.statement(), "/* fence check */", oids)
	return err
}

// bind is the check itself: a Bind, a Close, and never an Execute. A nil
// value is NULL.
func (ds domains) bind(values ...any) []pgproto3.FrontendMessage {
	b := &pgproto3.Bind{DestinationPortal: "_fp", PreparedStatement: ds.statement()}
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			b.Parameters = append(b.Parameters, nil)
		case ticket:
			b.Parameters = append(b.Parameters, fmt.Appendf(nil, "{%d,%d}", v.seq, v.epoch))
		default:
			b.Parameters = append(b.Parameters, fmt.Append([]byte{}, v)) // not nil if empty
		}
	}
	return []pgproto3.FrontendMessage{b, &pgproto3.Close{ObjectType: 'P', Name: "_fp"}}
}

// bindCheck is a form of check: the setting, and the token and the ticket by
// Bind.
func bindCheck(ctx context.Context, conn *pgx.Conn, token string, tk ticket) error {
	block := conn.PgConn().TxStatus() == 'T'
	if _, err := conn.Exec(ctx, "select set_config('fence.token', $1, $2)", token, block); err != nil {
		return err
	}
	if err := first.prepare(ctx, conn); err != nil {
		return err
	}
	check := first.bind(token, tk)
	if tk == (ticket{}) {
		check = first.bind(token, nil)
	}
	_, failure, err := exchange(ctx, conn, append(check, &pgproto3.Sync{})...)
	if _, closeErr := exchangeClose(ctx, conn, first.statement()); err == nil {
		err = closeErr
	}
	if err == nil && failure != nil {
		return failure
	}
	return err
}

func exchangeClose(ctx context.Context, conn *pgx.Conn, statement string) (trace string, err error) {
	trace, _, err = exchange(ctx, conn, &pgproto3.Close{ObjectType: 'S', Name: statement}, &pgproto3.Sync{})
	return trace, err
}

// exchange sends messages as they are and reads up to ReadyForQuery. The trace
// is the replies by their letters; failure is the first error among them.
func exchange(ctx context.Context, conn *pgx.Conn, messages ...pgproto3.FrontendMessage) (trace string, failure *pgconn.PgError, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, m := range messages {
		conn.PgConn().Frontend().Send(m)
	}
	if err := conn.PgConn().Frontend().Flush(); err != nil {
		return "", nil, err
	}
	var letters []string
	for {
		m, err := conn.PgConn().ReceiveMessage(ctx)
		if err != nil {
			return strings.Join(letters, " "), failure, err
		}
		letters = append(letters, letter(m))
		if e, ok := m.(*pgproto3.ErrorResponse); ok && failure == nil {
			failure = pgconn.ErrorResponseToPgError(e)
		}
		if _, ok := m.(*pgproto3.ReadyForQuery); ok {
			return strings.Join(letters, " "), failure, nil
		}
	}
}

// letter is a reply in short.
func letter(m pgproto3.BackendMessage) string {
	switch m := m.(type) {
	case *pgproto3.ParseComplete:
		return "1"
	case *pgproto3.BindComplete:
		return "2"
	case *pgproto3.CloseComplete:
		return "3"
	case *pgproto3.EmptyQueryResponse:
		return "I"
	case *pgproto3.RowDescription:
		return "T"
	case *pgproto3.DataRow:
		return "D[" + string(m.Values[0]) + "]"
	case *pgproto3.CommandComplete:
		return "C(" + string(m.CommandTag) + ")"
	case *pgproto3.CopyInResponse:
		return "G"
	case *pgproto3.CopyOutResponse:
		return "H"
	case *pgproto3.CopyData:
		return "d"
	case *pgproto3.CopyDone:
		return "c"
	case *pgproto3.FunctionCallResponse:
		return "V"
	case *pgproto3.ReadyForQuery:
		return "Z(" + string(m.TxStatus) + ")"
	case *pgproto3.NoticeResponse:
		return "N(" + m.Code + ")"
	case *pgproto3.ErrorResponse:
		if m.Position != 0 {
			return fmt.Sprintf("E(%s at %d)", m.Code, m.Position)
		}
		return "E(" + m.Code + ")"
	default:
		return fmt.Sprintf("%T", m)
	}
}

// talk is exchange for a test.
func talk(t *testing.T, conn *pgx.Conn, messages ...pgproto3.FrontendMessage) (trace string, failure *pgconn.PgError) {
	t.Helper()
	trace, failure, err := exchange(t.Context(), conn, messages...)
	if err != nil {
		t.Fatalf("after %q: %v", trace, err)
	}
	return trace, failure
}

func simple(sql string) *pgproto3.Query { return &pgproto3.Query{String: sql} }

// ask sends a check, and the client's messages right behind it.
func ask(t *testing.T, conn *pgx.Conn, check []pgproto3.FrontendMessage, client ...pgproto3.FrontendMessage) (trace string, failure *pgconn.PgError) {
	t.Helper()
	return talk(t, conn, append(check, client...)...)
}

// traced compares what was answered with what it should be.
func traced(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// wired opens a superuser's connection with the statements of a proxy.
func (d *database) wired(t testing.TB) *pgx.Conn {
	t.Helper()
	conn := d.open(t)
	ready(t, conn)
	return conn
}

func ready(t testing.TB, conn *pgx.Conn) {
	t.Helper()
	for _, ds := range []domains{first, last, lastSlow, enters, present, refuses} {
		if err := ds.prepare(t.Context(), conn); err != nil {
			t.Fatal(describe(err))
		}
	}
}

// carry sets the session's token, as options=-c does.
func carry(t testing.TB, conn *pgx.Conn, tokens string) {
	t.Helper()
	exec(t, conn, "select set_config('fence.token', $1, false)", tokens)
}
