package clients_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TestExceptions has what docs/guarantees.md lists as refused although the token
// is current. Each is refused with a hint, and the session goes on.
func TestExceptions(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		w := newWorld(t, s, current)
		conn, err := pgconn.Connect(t.Context(), w.dsn(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		before := w.state(t)
		for _, c := range []struct{ begin, refused string }{
			{"BEGIN; INSERT INTO accounts VALUES (6, 'six', 0)", "COMMIT AND CHAIN"},
			{"", "BEGIN; INSERT INTO accounts VALUES (6, 'six', 0); COMMIT; SELECT 1"},
			{"", "INSERT INTO accounts VALUES (6, 'six', 0); COMMIT; INSERT INTO accounts VALUES (7, 'seven', 0)"},
			{"BEGIN", "ROLLBACK; SELECT 1"},
			{"", "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1"},
			{"", "SET fence.token = ''; DELETE FROM accounts"},
			{"", "CREATE INDEX CONCURRENTLY ON accounts (owner)"},
			{"", "DROP INDEX CONCURRENTLY accounts_pkey"},
			{"", "REINDEX TABLE CONCURRENTLY accounts; SELECT 1; COMMIT; SELECT 2"},
			{"", "CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p WITH (connect = false, slot_name = NONE)"},
		} {
			if c.begin != "" {
				run(t, conn, c.begin)
			}
			_, err := conn.Exec(t.Context(), c.refused).ReadAll()
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "TK007" || pg.Hint == "" {
				t.Errorf("%s: %v", c.refused, err)
			}
			if c.begin != "" {
				run(t, conn, "ROLLBACK")
			}
			run(t, conn, "SELECT 1")
		}
		same(t, "what was written", before, w.state(t))
	})
}

func run(t *testing.T, conn *pgconn.PgConn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
