package pgproxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
)

// sleepers is how many sessions of the database sleep.
func (sc *scene) sleepers() string {
	return "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
}

// wantCancelled wants what clients have left running to end before its time,
// with nothing written.
func (sc *scene) wantCancelled(what string) {
	sc.t.Helper()
	admin := sc.admin()
	eventually(sc.t, what+": no session is left", func() bool { return sc.server.live.Load() == 0 })
	if n := sc.run(admin, sc.sleepers()); n != "0|" {
		sc.t.Errorf("%s: %s still run", what, n)
	}
	if n := sc.count(); n != 0 {
		sc.t.Errorf("%s: %d rows", what, n)
	}
}

// Longer than what waits for it.
const insertSlowly = "INSERT INTO t SELECT 1 FROM pg_sleep(600)"

func reset(conn net.Conn) error {
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		return err
	}
	return conn.Close()
}

// TestGoneAtOnce: what a client sends with its last breath does not run on
// without it: the cancel may be there first.
func TestGoneAtOnce(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		for name, gone := range map[string]func(conn net.Conn) error{
			"closed": net.Conn.Close, "half closed": func(conn net.Conn) error { return conn.(*net.TCPConn).CloseWrite() },
		} {
			for range 10 {
				c := sc.raw(sc.via(sc.token(1).String()))
				c.say(t, query(insertSlowly)...)
				if err := gone(c.conn); err != nil {
					t.Fatal(err)
				}
			}
			sc.wantCancelled(name)
		}
	})
}

// TestGoneWithReplies: a client that goes while the server has much to say to it,
// so that it is the proxy's writing which finds out. All that it has sent is
// cancelled, one after the other, and so is what it has left half sent.
func TestGoneWithReplies(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		much := query("SELECT repeat('x', 10000) FROM generate_series(1, 5000)")
		for name, steps := range map[string]step{
			"a pipeline": append(append(much, query(insertSlowly)...), query(insertSlowly)...),
			"no Sync":    append(much, &pgproto3.Parse{Query: insertSlowly}, &pgproto3.Bind{}, &pgproto3.Execute{}),
			"a COPY":     append(much, query("COPY t FROM STDIN")...),
		} {
			for range 5 {
				c := sc.raw(sc.via(sc.token(1).String()))
				c.say(t, steps...)
				c.hear(1, "D:")
				if err := reset(c.conn); err != nil {
					t.Fatal(err)
				}
			}
			sc.wantCancelled(name)
		}
	})
}

// ways are how a client may come: over TLS nobody tells the proxy at once that it
// has gone.
func (sc *scene) ways(token string) map[string]string {
	return map[string]string{
		"plain": withParams(sc.t, sc.via(token), "sslmode", "disable"), "TLS": withParams(sc.t, sc.via(token), "sslmode", "require"),
	}
}

func eachSceneTLS(t *testing.T, c Config, f func(t *testing.T, sc *scene)) {
	t.Helper()
	c.TLS = clientTLS(newAuthority(t).issue(t, "127.0.0.1"))
	eachScene(t, c, f)
}

// TestGoneInPipeline: a client that goes while its next message waits for the
// reply to the one before has gone, too.
func TestGoneInPipeline(t *testing.T) {
	t.Parallel()
	eachSceneTLS(t, Config{}, func(t *testing.T, sc *scene) {
		var gone []func() error
		for _, steps := range []step{
			append(query(insertSlowly), query("SELECT 1")...),
			append(query(insertSlowly), series("SELECT 1")...),
			append(append(query("BEGIN"), query(insertSlowly)...), query("COMMIT")...),
			append(query(insertSlowly), series("SELECT '"+strings.Repeat("x", 3*bufferSize)+"'")...),
		} {
			for _, dsn := range sc.ways(sc.token(1).String()) {
				for _, hangUp := range []func(net.Conn) error{net.Conn.Close, reset} {
					c := sc.raw(dsn)
					c.say(t, steps...)
					gone = append(gone, func() error { return hangUp(socket.Below(c.conn)) })
				}
			}
		}
		admin := sc.admin()
		eventually(t, "all sleep", func() bool { return sc.run(admin, sc.sleepers()) == fmt.Sprint(len(gone), "|") })
		for _, hangUp := range gone {
			if err := hangUp(); err != nil {
				t.Fatal(err)
			}
		}
		sc.wantCancelled("a pipeline")
	})
}

// TestGoneInClaim: a client that goes while the proxy claims for it has gone, too,
// before it may begin or later.
func TestGoneInClaim(t *testing.T) {
	t.Parallel()
	eachSceneTLS(t, Config{ClaimWait: 20 * testLimit}, func(t *testing.T, sc *scene) {
		old := sc.raw(sc.via(sc.token(1).String()))
		old.replay(t, query("BEGIN"), query("SELECT fence.check()"))
		for way, dsn := range sc.ways("") {
			c := sc.raw(dsn)
			c.replay(t, query("SET fence.token = '"+sc.token(2).String()+"'"))
			c.say(t, query(insertOne)...)
			sc.waitsForClaim("1")
			socket.Below(c.conn).Close()
			sc.waitsForClaim("0")
			eventually(t, way+": the session is over", func() bool { return sc.server.live.Load() == 1 })
		}
		for way, dsn := range sc.ways(sc.token(2).String()) {
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := pgconn.Connect(ctx, dsn)
				failed <- err
			}()
			sc.waitsForClaim("1")
			cancel()
			<-failed
			sc.waitsForClaim("0")
			eventually(t, way+": the session is over", func() bool { return sc.server.live.Load() == 1 })
		}
		wantWords(t, "the old holder", old.replay(t, query("COMMIT"), query(insertOne)), []string{"C:COMMIT", "Z:I", "C:INSERT 0 1", "Z:I"})
	})
}

// TestGoodbyeInPipeline: a client that says goodbye behind what waits for its turn
// leaves it to the proxy, however much that is.
func TestGoodbyeInPipeline(t *testing.T) {
	t.Parallel()
	eachSceneTLS(t, Config{}, func(t *testing.T, sc *scene) {
		left := 0
		for _, dsn := range sc.ways(sc.token(1).String()) {
			for _, size := range []int{1, 3 * bufferSize, 3 << 20} {
				c := sc.raw(dsn)
				c.say(t, append(append(query(fmt.Sprintf("INSERT INTO t SELECT %d FROM pg_sleep(1.5)", left)),
					series(fmt.Sprintf("INSERT INTO t VALUES (%d, '%s')", left+1, strings.Repeat("x", size)))...), &pgproto3.Terminate{})...)
				c.conn.Close()
				left += 2
			}
		}
		eventually(t, "all sessions are over", func() bool { return sc.server.live.Load() == 0 })
		if n := sc.count(); n != left {
			t.Errorf("%d rows of %d", n, left)
		}
	})
}

// TestGoneWithTLSToServer: also where the server hears by TLS that no more comes.
func TestGoneWithTLSToServer(t *testing.T) {
	t.Parallel()
	eachSecure(t, func(t *testing.T, s *secureServer) {
		f := startFront(t, Config{Upstream: Upstream{Address: s.Addr(), TLSMode: TLSVerifyFull, TLS: roots(s.authority.pool)}, Untokened: Allow})
		f.session = f.serve
		for range 10 {
			conn := openConn(t, withParams(t, f.via(t, s.as(t, "by_trust", "", "sslmode", "disable")), "application_name", "gone"))
			if _, err := conn.PgConn().Conn().Write(frame('Q', "SELECT pg_sleep(600)\x00")); err != nil {
				t.Fatal(err)
			}
			conn.PgConn().Conn().Close()
		}
		eventually(t, "no session is left", func() bool { return f.live.Load() == 0 })
		if n, err := ask(t, s.database, "SELECT count(*)::text FROM pg_stat_activity WHERE application_name = 'gone' AND wait_event = 'PgSleep'"); n != "0" || err != nil {
			t.Errorf("%s still run: %v", n, err)
		}
	})
}

// TestGoneWithoutWay: also where no further connection to the server can be made
// at first.
func TestGoneWithoutWay(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	sc := newScene(t, testenv.StartPostgres(t, testenv.PostgresConfig{Settings: map[string]string{"unix_socket_directories": dir}}), Config{})
	u, err := url.Parse(sc.url)
	if err != nil {
		t.Fatal(err)
	}
	way := filepath.Join(dir, ".s.PGSQL."+u.Port())
	var log lockedBuffer
	sc.addr, sc.server = serveProxy(t, Config{Upstream: Upstream{Address: way}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c, admin := sc.raw(sc.via(sc.token(1).String())), sc.admin()
	c.say(t, query(insertSlowly)...)
	eventually(t, "it sleeps", func() bool { return sc.run(admin, sc.sleepers()) == "1|" })
	if err := os.Rename(way, way+".away"); err != nil {
		t.Fatal(err)
	}
	c.conn.Close()
	eventually(t, "a cancel fails", func() bool { return strings.Contains(log.String(), "left running") })
	if err := os.Rename(way+".away", way); err != nil {
		t.Fatal(err)
	}
	sc.wantCancelled("not reached at first")
}
