package pgproxy

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TestGoodbye: what a client sends before Terminate is done and answered, as it
// is without a proxy; and the session ends with it, also where the server does
// not take it for Terminate.
func TestGoodbye(t *testing.T) {
	t.Parallel()
	sc := newScene(t, testenv.Postgres(t), Config{})
	last := &pgproto3.Terminate{}
	for name, c := range map[string]struct {
		messages []pgproto3.FrontendMessage
		hangsUp  bool // at once
		rows     int
	}{
		"answered":     {[]pgproto3.FrontendMessage{&pgproto3.Query{String: "INSERT INTO t SELECT 1 FROM pg_sleep(0.3)"}, last}, false, 1},
		"not awaited":  {[]pgproto3.FrontendMessage{&pgproto3.Query{String: "INSERT INTO t SELECT 2 FROM pg_sleep(0.3)"}, last}, true, 1},
		"in a COPY":    {[]pgproto3.FrontendMessage{&pgproto3.Query{String: "COPY t (id) FROM STDIN"}, &pgproto3.CopyData{Data: []byte("9\n")}, last}, true, 0},
		"in a block":   {[]pgproto3.FrontendMessage{&pgproto3.Query{String: "BEGIN"}, &pgproto3.Query{String: "INSERT INTO t VALUES (3)"}, last}, false, 0},
		"and no reply": {[]pgproto3.FrontendMessage{last}, false, 0},
	} {
		conn := sc.connect(sc.url)
		sc.exec(conn, "TRUNCATE t")
		transcripts := map[string]string{}
		for way, dsn := range map[string]string{"direct": sc.url, "proxy": sc.via(sc.token(1).String())} {
			sc.exec(conn, "TRUNCATE t")
			var pid int
			r := sc.raw(dsn)
			pid = r.backend(t)
			var b []byte
			for _, m := range c.messages {
				b, _ = m.Encode(b)
			}
			_ = r.conn.SetDeadline(time.Now().Add(testLimit))
			if _, err := r.conn.Write(b); err != nil {
				t.Fatal(err)
			}
			if c.hangsUp {
				r.conn.Close()
			} else {
				got, err := io.ReadAll(r.conn)
				if err != nil {
					t.Errorf("%s, %s: %v", name, way, err)
				}
				transcripts[way] = string(got)
			}
			eventually(t, name+", "+way+": the backend has ended", func() bool {
				var n int
				err := conn.QueryRow(context.Background(), "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid).Scan(&n)
				return err == nil && n == 0
			})
			if n := sc.count(); n != c.rows {
				t.Errorf("%s, %s: %d rows, want %d", name, way, n, c.rows)
			}
		}
		if transcripts["direct"] != transcripts["proxy"] {
			t.Errorf("%s: %q through the proxy, %q without", name, transcripts["proxy"], transcripts["direct"])
		}
	}
}

// backend is the process id of the session's backend.
func (r *raw) backend(t *testing.T) (pid int) {
	t.Helper()
	r.Send(&pgproto3.Query{String: "SELECT pg_backend_pid()"})
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := r.Receive()
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			for _, digit := range m.Values[0] {
				pid = 10*pid + int(digit-'0')
			}
		case *pgproto3.ReadyForQuery:
			return pid
		}
	}
}
