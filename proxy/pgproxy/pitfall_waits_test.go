package pgproxy

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// waitsForClaim waits until so many sessions of the database wait in a claim.
func (sc *scene) waitsForClaim(n string) {
	sc.t.Helper()
	admin := sc.admin()
	eventually(sc.t, "claims wait", func() bool {
		return sc.run(admin, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%fence.claim(%' AND wait_event_type = 'Lock' AND datname = current_database()") == n+"|"
	})
}

// TestCancelOfClaim: a cancel that comes while the proxy claims for a client ends
// the client's statement, with the SQLSTATE by which drivers know it, and not its
// session or its next statement (pgbouncer #298, #717).
func TestCancelOfClaim(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{ClaimWait: testLimit}, func(t *testing.T, sc *scene) {
		old, next := sc.connect(sc.via(sc.token(1).String())), sc.connect(sc.via(""))
		sc.exec(old, "BEGIN")
		sc.exec(old, insertOne)
		sc.exec(old, "SELECT fence.check()")
		sc.exec(next, "SET fence.token = '"+sc.token(2).String()+"'")
		failed := make(chan error, 1)
		go func() {
			_, err := next.Exec(context.Background(), "INSERT INTO t VALUES (2)")
			failed <- err
		}()
		sc.waitsForClaim("1")
		if err := next.PgConn().CancelRequest(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := <-failed
		if sc.wants(err, "57014"); !strings.Contains(err.Error(), "ERROR: canceling statement due to user request") {
			t.Errorf("the cancelled statement: %v", err)
		}
		sc.exec(old, "COMMIT")
		sc.exec(next, "INSERT INTO t VALUES (3)")
		if n := sc.count(); n != 2 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestCheckedFromBindOn: the check is made before a portal has its snapshot, and
// holds until the series is over, however slowly that comes.
func TestCheckedFromBindOn(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		c, admin := sc.raw(sc.via(sc.token(1).String())), sc.admin()
		c.say(t, &pgproto3.Parse{Query: insertOne}, &pgproto3.Bind{}, &pgproto3.Flush{})
		c.hear(1, "BindComplete")
		claimed := make(chan string, 1)
		go func() { claimed <- sc.run(admin, "SELECT fence.claim('"+sc.token(2).String()+"') IS NULL") }()
		sc.waitsForClaim("1")
		c.say(t, &pgproto3.Execute{}, &pgproto3.Flush{})
		wantWords(t, "executed", c.hear(1, "C:"), []string{"C:INSERT 0 1"})
		c.say(t, &pgproto3.Sync{})
		wantWords(t, "committed", c.hear(1, "Z:"), []string{"Z:I"})
		<-claimed
		if n := sc.count(); n != 1 {
			t.Errorf("%d rows", n)
		}
		wantRefusal(t, c.replay(t, series("DELETE FROM t")), "TK001")
	})
}

// TestClaimsByStatement: of two sessions that are checked and claim by themselves,
// both at once, one gets its claim, and the other one is told of the deadlock, or
// that it is too late.
func TestClaimsByStatement(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		said := make(chan string, 2)
		for _, next := range []string{sc.token(2).String(), sc.token(3).String()} {
			c := sc.raw(sc.via(sc.token(1).String()))
			go func() {
				said <- strings.Join(c.replay(t, query("SELECT (fence.claim('"+next+"', '30s')).epoch IS NULL")), " ")
			}()
		}
		both := <-said + " " + <-said
		lost := strings.Count(both, "E:ERROR:40P01") + strings.Count(both, "E:ERROR:TK001")
		if strings.Count(both, "C:SELECT 1") != 1 || lost != 1 {
			t.Errorf("they are told %s", both)
		}
	})
}

// TestHalfClosed: a client that ends its side of the connection without Terminate
// has gone: its statement is cancelled.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		c := sc.raw(sc.via(sc.token(1).String()))
		pid := c.backend(t)
		c.say(t, &pgproto3.Query{String: "INSERT INTO t SELECT 1 FROM pg_sleep(600)"})
		admin := sc.connect(sc.url)
		left := func(state string) (n int) {
			if err := admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND coalesce(wait_event, '') LIKE $2", pid, state).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		eventually(t, "it runs", func() bool { return left("PgSleep") == 1 })
		if err := c.conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		for _, w := range c.hear(10, "nothing") {
			if !strings.HasPrefix(w, "E:ERROR:57014") && !strings.HasPrefix(w, "connection: ") && w != "Z:I" {
				t.Errorf("it hears %s", w)
			}
		}
		eventually(t, "the backend has ended", func() bool { return left("%") == 0 })
		if n := sc.count(); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestSparseServer: a server that has no key for cancels and errors without a
// SQLSTATE is relayed as it is (teleport #68711, pgdog #918, pgbouncer
// CVE-2026-6666).
func TestSparseServer(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan net.Conn, 1)
	go pretend(ln, accepted)
	addr, _ := serveProxy(t, Config{Upstream: Upstream{Address: ln.Addr().String()}, Untokened: Allow})
	c := dialRaw(t, addr)
	c.send(startupPacket(protocol30, "user", "u"))
	c.await('R')
	if frame := c.read(6); frame != string(readyIdle) {
		t.Errorf("the client gets %q", frame)
	}
	server := <-accepted
	defer server.Close()
	c.send(frame('Q', "SELECT 1\x00"))
	want := string(frame('E', "\x00")) + string(readyIdle)
	if _, err := server.Write([]byte(want)); err != nil {
		t.Fatal(err)
	}
	if got := c.read(len(want)); got != want {
		t.Errorf("the client gets %q, want %q", got, want)
	}
}
