package pgproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TestServersLastWord: whenever the server ends a session, the client hears why,
// once, and then the end of the connection: a second error of the proxy's own has
// put libpq into a loop (odyssey #514).
func TestServersLastWord(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		admin := sc.admin()
		sc.run(admin, "CREATE FUNCTION die() RETURNS int LANGUAGE sql AS 'SELECT pg_terminate_backend(pg_backend_pid())::int'")
		sc.run(admin, "CREATE FUNCTION dies() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM die(); RETURN NULL; END'")
		sc.run(admin, "CREATE TABLE fatal (id int); CREATE CONSTRAINT TRIGGER x AFTER INSERT ON fatal DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION dies()")
		const die = "SELECT die()"
		for name, c := range map[string]struct {
			before []step
			last   step
			ended  string // from outside, when the last message's reply begins so; "" is by itself
		}{
			"idle":            {nil, query("SELECT 1"), "Z:I"},
			"listening":       {nil, query("LISTEN c"), "Z:I"},
			"in a block":      {[]step{query("BEGIN")}, query(insertOne), "Z:T"},
			"in a failed one": {[]step{query("BEGIN")}, query("SELECT 1/0"), "Z:E"},
			"in a series":     {nil, append(unsynced(insertOne), &pgproto3.Flush{}), "C:"},
			"copying in":      {nil, query("COPY t FROM STDIN"), "CopyIn"},
			"running":         {nil, query(die), ""},
			"in a pipeline":   {nil, slices.Concat(query("SELECT 1"), query(die), query("SELECT 2"), series("SELECT 3")), ""},
			"in two series":   {nil, slices.Concat(series("SELECT 1"), series(die, "SELECT 2"), series("SELECT 3")), ""},
			"copying out":     {nil, slices.Concat(query("COPY (SELECT die()) TO STDOUT"), query("SELECT 2")), ""},
			"at COMMIT":       {[]step{query("BEGIN"), query("INSERT INTO fatal VALUES (1)")}, query("COMMIT"), ""},
			"in a procedure":  {nil, query("DO $$ BEGIN PERFORM die(); END $$"), ""},
			"idle for long":   {[]step{query("SET idle_in_transaction_session_timeout = 50")}, query("BEGIN"), ""},
		} {
			var said [2][]string
			for i, dsn := range []string{sc.url, sc.via(sc.token(1).String())} {
				r := sc.raw(dsn)
				pid := r.backend(t)
				r.replay(t, c.before...)
				r.say(t, c.last...)
				if c.ended != "" {
					r.hear(1, c.ended)
					sc.run(admin, "SELECT pg_terminate_backend("+strconv.Itoa(pid)+")")
				}
				said[i] = r.hear(100, "nothing")
				r.conn.Close()
			}
			wantWords(t, name, said[1], said[0])
			if got := strings.Join(said[1], " "); strings.Count(got, "E:FATAL") != 1 || !strings.HasSuffix(got, "connection: unexpected EOF") {
				t.Errorf("%s: %s", name, got)
			}
		}
	})
}

// TestEndedWhileItWaits: so it is when the server ends a session whose check waits
// for a claim: nothing of the proxy's, no second error, and nothing is written.
func TestEndedWhileItWaits(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		admin := sc.admin()
		for name, steps := range map[string][]step{
			"query":     {slices.Concat(query(insertOne), query("SELECT 1"))},
			"series":    {slices.Concat(series(insertOne), series("SELECT 1"))},
			"COMMIT":    {query("BEGIN"), query(insertOne), query("COMMIT")},
			"in series": {query("BEGIN"), query(insertOne), series("COMMIT")},
			"procedure": {query("DO $$ BEGIN INSERT INTO t VALUES (1); END $$")},
			"call":      {call(loCreate, "4711")},
		} {
			sc := *sc
			sc.resource = name
			c, claim := sc.raw(sc.via(sc.token(1).String())), sc.connect(sc.url)
			c.replay(t, steps[:len(steps)-1]...)
			sc.exec(claim, "BEGIN")
			sc.exec(claim, "SELECT fence.claim($1)", sc.token(2).String())
			c.say(t, steps[len(steps)-1]...)
			eventually(t, "it waits", func() bool {
				return strings.HasPrefix(sc.run(admin, "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"), "1")
			})
			got := slices.DeleteFunc(c.hear(100, "nothing"), func(w string) bool { return w == "ParseComplete" || w == "BindComplete" })
			wantWords(t, name, got, []string{"E:FATAL:57P01:terminating connection due to administrator command:0", "connection: unexpected EOF"})
			sc.exec(claim, "COMMIT")
		}
		if n := sc.count(); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestCutBetweenMessages: a session that ends in the middle of a long result ends
// there, or with an error behind a whole message, never inside of one
// (sqlproxy #66205, #77734).
func TestCutBetweenMessages(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(t *testing.T, sc *scene, c *raw){
		"shutdown": func(t *testing.T, sc *scene, _ *raw) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := sc.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Shutdown: %v", err)
			}
		},
		"impossible message": func(t *testing.T, _ *scene, c *raw) {
			t.Helper()
			if _, err := c.conn.Write([]byte{'Q', 0, 0, 0, 3}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachScene(t, Config{}, func(t *testing.T, sc *scene) {
				c := sc.raw(sc.via(sc.token(1).String()))
				c.say(t, &pgproto3.Query{String: "SELECT repeat('x', 100000) FROM generate_series(1, 1000)"})
				head := make([]byte, 1<<20)
				if _, err := io.ReadFull(c.conn, head); err != nil {
					t.Fatal(err)
				}
				cut(t, sc, c)
				rest, _ := io.ReadAll(c.conn)
				wantWholeRows(t, slices.Concat(head, rest))
			})
		})
	}
}

// wantWholeRows wants rows of 100,000 x, perhaps with a fatal error behind them,
// or a part of one.
func wantWholeRows(t *testing.T, b []byte) {
	t.Helper()
	var kinds []byte
	left, broken := frames(b, func(kind byte, body []byte) bool {
		kinds = append(kinds, kind)
		switch {
		case kind == 'T':
		case kind == 'D' && len(body) == 2+4+100_000 && bytes.Count(body, []byte("x")) == 100_000:
		case kind == 'E' && pgwire.FieldOf(body, pgwire.SeverityCode) == severityFatal:
		default:
			t.Errorf("message %d is %q of %d bytes", len(kinds), kind, len(body))
		}
		return true
	})
	at := bytes.IndexByte(kinds, 'E')
	if broken || at >= 0 && (at < len(kinds)-1 || len(left) > 0) || len(left) > 0 && left[0] != 'D' || bytes.Count(left, []byte("x")) < len(left)-11 {
		t.Errorf("after %d messages: broken=%v, %d bytes", len(kinds), broken, len(left))
	}
}

// TestNobodyReads: a client that sends much before it reads anything, and a server
// that does the same, do not block each other for ever, nor the proxy that has
// words of its own for both (autopg #14, gatewayd #533).
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		const messages = 400
		long := strings.Repeat("x", 20_000)
		for name, m := range map[string]step{
			"queries": query("SELECT '" + long + "'"),
			"series":  series("SELECT '" + long + "'"),
			"copied":  copied("COPY t (v) FROM STDIN", "\\N"+long+"\n"), // fails, each time
		} {
			for _, stale := range []bool{false, true} {
				token := sc.token(1)
				token.Resource = name
				c := sc.raw(sc.via(token.String()))
				if stale {
					token.Number, token.Holder = 2, "other"
					sc.claim(token)
				}
				var b []byte
				for range messages {
					for _, m := range m {
						b, _ = m.Encode(b)
					}
				}
				_ = c.conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
				n, err := c.conn.Write(b) // until nobody takes any more
				if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
				wrote := make(chan error, 1)
				go func() {
					_ = c.conn.SetWriteDeadline(time.Now().Add(testLimit))
					_, err := c.conn.Write(b[n:])
					wrote <- err
				}()
				_ = c.conn.SetReadDeadline(time.Now().Add(testLimit))
				got := c.hearAll(messages)
				if err := <-wrote; err != nil {
					t.Fatal(err)
				}
				if got['Z'] != messages || stale && got['E'] != messages {
					t.Errorf("%s, stale=%v: %d ReadyForQuery, %d errors", name, stale, got['Z'], got['E'])
				}
				c.conn.Close()
			}
		}
	})
}

// hearAll counts messages up to the n-th ReadyForQuery.
func (c *raw) hearAll(n int) map[byte]int {
	got := map[byte]int{}
	for got['Z'] < n {
		m, err := c.Receive()
		if err != nil {
			return got
		}
		got[word(m)[0]]++
	}
	return got
}

// TestReplicationSession: a replication connection, where that is allowed, is
// relayed as it is, both ways at once.
func TestReplicationSession(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{AllowReplication: true})
		c := sc.raw(withParams(t, sc.via(sc.token(1).String()), "replication", "true"))
		if got := strings.Join(c.replay(t, query("IDENTIFY_SYSTEM"), query("SHOW port")), " "); strings.Count(got, "Z:I") != 2 || strings.Contains(got, "E:") {
			t.Fatalf("got %s", got)
		}
		position := strings.TrimSuffix(sc.run(sc.admin(), "SELECT pg_current_wal_flush_lsn()"), "|")
		c.say(t, &pgproto3.Query{String: "START_REPLICATION PHYSICAL " + position})
		wantWords(t, "it starts", c.hear(1, "CopyBoth"), []string{"CopyBothResponse"})
		sc.exec(sc.connect(sc.url), insertOne)
		if got := c.hear(1, "d:"); !strings.HasPrefix(got[0], `d:"w`) {
			t.Errorf("got %q", got)
		}
		status := append([]byte{'r'}, make([]byte, 33)...)
		c.say(t, &pgproto3.CopyData{Data: status}, &pgproto3.CopyDone{})
		rest := c.hear(1, "Z:")
		rest = slices.DeleteFunc(rest, func(w string) bool { return strings.HasPrefix(w, "d:") })
		wantWords(t, "it ends", rest, []string{"CopyDone", "C:START_STREAMING", "C:START_REPLICATION", "Z:I"})
	})
}
