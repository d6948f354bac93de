package pgproxy

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

const (
	saysNoToken = "no fencing token"
	saysShared  = "is shared"
)

// TestReadOnlySaysWhy: a write without an exclusive token is told that it is the
// fence which keeps it from writing, and what to do; the SQLSTATE and the message
// stay the server's.
func TestReadOnlySaysWhy(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		for name, c := range map[string]struct{ token, detail, hint string }{
			"no token": {"", saysNoToken, `PGOPTIONS="-c fence.token=`},
			"shared":   {shared(1).String(), saysShared, "exclusive token"},
		} {
			conn := sc.connect(sc.via(c.token))
			simple := []any{pgx.QueryExecModeSimpleProtocol}
			for _, write := range []struct {
				sql  string
				args []any
			}{
				{insertOne, simple},
				{"INSERT INTO t VALUES ($1, 'a')", []any{7}},
				{"INSERT INTO t VALUES ($1, 'a')", []any{7}}, // prepared by now
				{"SELECT 1; " + insertOne, simple},
				{"CREATE TABLE u ()", nil},
				{"DO $$ BEGIN INSERT INTO t VALUES (8, 'a'); END $$", nil},
			} {
				_, err := conn.Exec(t.Context(), write.sql, write.args...)
				explained(t, name+", "+write.sql, err, c.detail, c.hint)
			}
			for _, args := range [][]any{simple, nil} {
				sc.exec(conn, "BEGIN", args...)
				sc.exec(conn, "SELECT 1", args...)
				sc.exec(conn, "SAVEPOINT s", args...)
				_, err := conn.Exec(t.Context(), insertOne, args...)
				explained(t, name+", in a block", err, c.detail, c.hint)
				sc.exec(conn, "ROLLBACK TO s", args...)
				_, err = conn.Exec(t.Context(), insertOne, args...)
				explained(t, name+", again in the block", err, c.detail, c.hint)
				sc.exec(conn, "ROLLBACK", args...)
			}
			batch := &pgx.Batch{}
			batch.Queue("SELECT 1")
			batch.Queue(insertOne)
			explained(t, name+", in a batch", conn.SendBatch(t.Context(), batch).Close(), c.detail, c.hint)
			sc.exec(conn, "SELECT 1")
			out, _ := psql(t, sc.via(c.token), insertOne)
			for _, part := range []string{"cannot execute INSERT in a read-only transaction", "DETAIL:", c.detail, "HINT:", c.hint} {
				if !strings.Contains(out, part) {
					t.Errorf("%s: psql says %q, without %q", name, out, part)
				}
			}
		}
		if n := sc.count(); n != 0 {
			t.Errorf("%d rows were written", n)
		}
	})
}

// TestReadOnlyOfTheClient: who asked for a read-only transaction is told what the
// server says, and no more; and hears of the fence again behind it.
func TestReadOnlyOfTheClient(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		for name, steps := range map[string][]string{
			"BEGIN":          {"BEGIN READ ONLY"},
			"START":          {"start transaction isolation level serializable, read only"},
			"SET":            {"BEGIN", "SET TRANSACTION READ ONLY"},
			"its setting":    {"BEGIN", "SET LOCAL transaction_read_only = on"},
			"set_config":     {"BEGIN", "SELECT set_config('transaction_read_only', 'on', true)"},
			"characteristic": {"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "BEGIN"},
			"default":        {"SET default_transaction_read_only = on", "BEGIN"},
		} {
			for _, args := range [][]any{{pgx.QueryExecModeSimpleProtocol}, nil} {
				conn := sc.connect(sc.via(""))
				for _, step := range steps {
					sc.exec(conn, step, args...)
				}
				_, err := conn.Exec(t.Context(), insertOne, args...)
				explained(t, name, err, "", "")
				sc.exec(conn, "ROLLBACK", args...)
				if steps[0] != "BEGIN" && steps[len(steps)-1] == "BEGIN" {
					_, err := conn.Exec(t.Context(), insertOne, args...)
					explained(t, name+", without a block", err, "", "")
					sc.exec(conn, "RESET default_transaction_read_only", args...)
				}
				_, err = conn.Exec(t.Context(), insertOne, args...)
				explained(t, name+", behind it", err, saysNoToken, "fence.token")
			}
		}
		u, err := url.Parse(sc.via(""))
		if err != nil {
			t.Fatal(err)
		}
		u.RawQuery = "options=-c%20default_transaction_read_only%3Don"
		_, err = sc.connect(u.String()).Exec(t.Context(), insertOne)
		explained(t, "from the start", err, "", "")
		writer := sc.connect(sc.via(sc.token(2).String()))
		sc.exec(writer, "BEGIN READ ONLY")
		_, err = writer.Exec(t.Context(), insertOne)
		explained(t, "with a token", err, "", "")
	})
}

// TestReadOnlyUnderAllow: who may write without a token is told nothing of tokens.
func TestReadOnlyUnderAllow(t *testing.T) {
	t.Parallel()
	sc := newScene(t, testenv.Postgres(t), Config{Untokened: Allow})
	conn := sc.connect(sc.via(""))
	sc.exec(conn, insertOne)
	sc.exec(conn, "SELECT set_config('fence.token', '', false)") // followed from here on
	sc.exec(conn, "BEGIN")
	sc.exec(conn, "DO $$ BEGIN EXECUTE 'SET LOCAL transaction_read' || '_on' || 'ly = on'; END $$")
	_, err := conn.Exec(t.Context(), "INSERT INTO t VALUES (2, 'a')")
	explained(t, "allow", err, "", "")
}

// explained fails unless err is the server's own, with that in its detail and its
// hint; with neither, if detail is "".
func explained(t *testing.T, name string, err error, detail, hint string) {
	t.Helper()
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "25006" || pgErr.Routine != "PreventCommandIfReadOnly" ||
		!strings.HasPrefix(pgErr.Message, "cannot execute ") || !strings.HasSuffix(pgErr.Message, " in a read-only transaction") {
		t.Errorf("%s: %v, %+v", name, err, pgErr)
		return
	}
	if detail == "" && pgErr.Detail+pgErr.Hint != "" || !strings.Contains(pgErr.Detail, detail) || !strings.Contains(pgErr.Hint, hint) {
		t.Errorf("%s: detail %q, hint %q", name, pgErr.Detail, pgErr.Hint)
	}
}

// TestReadWriteInOneMessage: a client that makes a transaction read-write, which is
// read-only by default, has it so; and where that would be too late behind the check,
// since the rest of the message follows at once, hears what to do instead (I7).
func TestReadWriteInOneMessage(t *testing.T) {
	t.Parallel()
	readOnly, insert := query("SET default_transaction_read_only = on"), "INSERT INTO t VALUES (7, 'a')"
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		token := sc.token(1).String()
		sc.same(sc.addr, token, [][]step{
			{query("BEGIN READ WRITE; " + insert), query("COMMIT")},
			{query("BEGIN READ WRITE; " + insert + "; COMMIT")},
			{query("START TRANSACTION READ ONLY; SELECT 1"), query(insert), query("ROLLBACK")},
			{query("BEGIN"), query("SET TRANSACTION READ WRITE; " + insert), query("COMMIT")},
			{readOnly, query(insert), query("BEGIN; SELECT 1"), query("SET TRANSACTION READ WRITE; " + insert), query("COMMIT")},
			{readOnly, query("BEGIN READ WRITE"), query(insert), query("COMMIT")},
			{readOnly, query("BEGIN READ WRITE; SET LOCAL work_mem = '1MB'"), query(insert), query("COMMIT")},
			{readOnly, query("BEGIN READ WRITE, ISOLATION LEVEL REPEATABLE READ; LOCK TABLE t"), query(insert), query("COMMIT")},
			{readOnly, series("BEGIN READ WRITE", insert, "COMMIT"), series("BEGIN", "SET TRANSACTION READ WRITE", insert, "ROLLBACK")},
			{readOnly, query("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; SELECT 1"), query(insert)},
		})
		for _, c := range []struct {
			steps []step
			says  string
		}{
			{[]step{readOnly, query("BEGIN READ WRITE; " + insert)}, "SET Z:I / E:TK007 Z:I /"},
			{[]step{readOnly, query("BEGIN READ WRITE; " + insert + "; COMMIT")}, "SET Z:I / E:TK007 Z:I /"},
			{[]step{readOnly, query("START TRANSACTION READ WRITE; LOCK TABLE t")}, "SET Z:I / E:TK007 Z:I /"},
			{[]step{readOnly, query("BEGIN"), query("SET TRANSACTION READ WRITE; " + insert)}, "SET Z:I / BEGIN Z:T / E:TK007 Z:E /"},
			{[]step{query("BEGIN READ ONLY"), query("SET TRANSACTION READ WRITE; " + insert)}, "BEGIN Z:T / E:TK007 Z:E /"},
			{[]step{query("BEGIN READ ONLY; SET TRANSACTION READ WRITE; " + insert)}, "E:TK007 Z:I /"},
			{[]step{readOnly, query("SET transaction_read_only = off; " + insert)}, "SET Z:I / E:TK007 Z:I /"},
		} {
			conn := sc.raw(sc.via(token))
			if got := conn.play(t, c.steps...); got != c.says {
				t.Errorf("%q: %s, want %s", c.steps, got, c.says)
			}
			conn.conn.Close()
		}
		if n := sc.count(); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}
