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
		endBackend(t, other, "%fence.claim(%", "Lock")
		wantShutdown(t, <-failed)
	})
	t.Run("in a claim", func(t *testing.T) {
		sc.endsUnheard(t, "SET fence.token = '"+sc.token(3).String()+"'", "INSERT INTO t VALUES (3, 'c')", func() {
			endBackend(t, other, "%fence.claim(%", "Lock")
		})
	})
	t.Run("in a statement", func(t *testing.T) {
		sc.endsUnheard(t, "SELECT 1", "SELECT pg_sleep(600)", func() { endBackend(t, other, "SELECT pg_sleep(600)", "Timeout") })
	})
}

// endsUnheard has a client send two statements and more that nobody will read,
// before end ends its session. It reads only then.
func (sc *scene) endsUnheard(t *testing.T, first, second string, end func()) {
	t.Helper()
	r := sc.raw(sc.via(""))
	_ = r.conn.SetDeadline(time.Now().Add(testLimit))
	r.Send(&pgproto3.Query{String: first})
	r.Send(&pgproto3.Query{String: second})
	for range 3 {
		r.Send(&pgproto3.Query{String: "SELECT '" + strings.Repeat("x", bufferSize) + "'"})
	}
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
	end()
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
}

// endBackend waits until a backend waits in a query, and terminates it.
func endBackend(t *testing.T, conn *pgx.Conn, query, event string) {
	t.Helper()
	eventually(t, "a backend waits and is ended", func() bool {
		var n int
		err := conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'active' AND query LIKE $1 AND wait_event_type = $2 AND pid <> pg_backend_pid()`, query, event).Scan(&n)
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
