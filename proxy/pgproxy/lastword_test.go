package pgproxy

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TestLastWord: a client hears why the server ended its session, also if the
// server said so to the proxy, which was claiming the client's token.
func TestLastWord(t *testing.T) {
	t.Parallel()
	sc := newScene(t, testenv.Postgres(t), Config{ClaimWait: testLimit})
	holder := sc.connect(sc.via(sc.token(1).String()))
	sc.exec(holder, "BEGIN")
	sc.exec(holder, "INSERT INTO t VALUES (1, 'a')")
	sc.exec(holder, "SELECT fence.check()") // holds the resource
	other := sc.connect(sc.url)

	t.Run("at the start of a session", func(t *testing.T) {
		failed := make(chan error, 1)
		go func() {
			_, err := pgx.Connect(t.Context(), sc.via(sc.token(2).String()))
			failed <- err
		}()
		endClaim(t, other)
		wantShutdown(t, <-failed)
	})
	t.Run("in a session", func(t *testing.T) {
		r := sc.raw(sc.via(""))
		_ = r.conn.SetDeadline(time.Now().Add(testLimit))
		r.Send(&pgproto3.Query{String: "SET fence.token = '" + sc.token(3).String() + "'"})
		r.Send(&pgproto3.Query{String: "INSERT INTO t VALUES (3, 'c')"})
		for range 3 { // nobody reads these
			r.Send(&pgproto3.Query{String: "SELECT '" + strings.Repeat("x", bufferSize) + "'"})
		}
		if err := r.Flush(); err != nil {
			t.Fatal(err)
		}
		endClaim(t, other)
		eventually(t, "the proxy has closed the connection", func() bool { return sc.server.live.Load() == 1 })
		for {
			m, err := r.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := m.(*pgproto3.ErrorResponse); ok {
				wantShutdown(t, pgconn.ErrorResponseToPgError(e))
				return
			}
		}
	})
}

// endClaim waits until a backend waits for a resource, and terminates it.
func endClaim(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	eventually(t, "a claim waits and is ended", func() bool {
		var n int
		err := conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'active' AND query LIKE '%fence.claim(%' AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}

func wantShutdown(t *testing.T, err error) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Severity != severityFatal || pg.Code != stateAdminShutdown {
		t.Errorf("client hears %v, want FATAL %s", err, stateAdminShutdown)
	}
}
