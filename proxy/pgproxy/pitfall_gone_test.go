package pgproxy

import (
	"net"
	"testing"
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
