package pgproxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TestClaimNamesWhoItWaitsFor: a client whose claim has waited in vain is told for
// whom, a prepared transaction among them (I4); one that is refused is told the
// mark, but not its holder, whom it could pose as.
func TestClaimNamesWhoItWaitsFor(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{ClaimWait: 100 * time.Millisecond}, func(t *testing.T, sc *scene) {
		told := func(number int64, code string) string {
			c := sc.connect(sc.via(""))
			sc.exec(c, "SET fence.token = '"+sc.token(number).String()+"'")
			_, err := c.Exec(t.Context(), "INSERT INTO t VALUES (2, 'b')")
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != code {
				t.Fatalf("token %d: %v, want %s", number, err, code)
			}
			return pg.Message + "\n" + pg.Detail + "\n" + pg.Hint
		}
		gid := fmt.Sprintf("named-%d", time.Now().UnixNano())
		c := sc.raw(sc.via(sc.token(1).String()))
		pid := c.backend(t)
		c.replay(t, query("BEGIN"), query(insertOne), query("SELECT fence.check()"))
		if got, who := told(2, "TK004"), fmt.Sprintf("pid %d, user ", pid); !strings.Contains(got, who) {
			t.Errorf("there is no %q in what the client is told:\n%s", who, got)
		}
		c.replay(t, query("PREPARE TRANSACTION '"+gid+"'"))
		if got := told(2, "TK004"); !strings.Contains(got, "'"+gid+"'") {
			t.Errorf("there is no %q in what the client is told:\n%s", gid, got)
		}
		c.replay(t, query("ROLLBACK PREPARED '"+gid+"'"))
		sc.claim(sc.token(3))
		if got := told(2, "TK001"); !strings.Contains(got, "writer=3 ") || strings.Contains(got, "holder=") || strings.Contains(got, sc.token(3).Holder) {
			t.Errorf("of the mark the client is told:\n%s", got)
		}
	})
}

// TestClaimUnderTimeouts: timeouts of the role's, which are shorter than a claim may
// have to wait, do not end it before it evicts (I4); for the client's statements they
// hold.
func TestClaimUnderTimeouts(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{ClaimWait: time.Second, Evict: true})
		role, password := s.Role(t, "LOGIN")
		admin := sc.connect(sc.url)
		sc.exec(admin, "GRANT ALL ON t TO "+role)
		sc.exec(admin, "GRANT EXECUTE ON FUNCTION fence.claim(text, interval, boolean) TO "+role)
		timeouts := []string{"statement_timeout"}
		if s.Major() >= 17 {
			timeouts = append(timeouts, "transaction_timeout")
		}
		for i, timeout := range timeouts {
			older, newer := sc.token(int64(2*i+1)), sc.token(int64(2*i+2))
			sc.exec(admin, "ALTER ROLE "+role+" RESET ALL")
			old := sc.connect(testenv.URLAs(sc.url, role, password))
			sc.exec(admin, "ALTER ROLE "+role+" SET "+timeout+" = '500ms'")
			sc.claim(older)
			sc.exec(old, "BEGIN")
			sc.exec(old, "SELECT fence.check($1)", older.String())
			next := sc.connect(testenv.URLAs(sc.via(""), role, password))
			sc.exec(next, "SET fence.token = '"+newer.String()+"'")
			if _, err := next.Exec(t.Context(), "INSERT INTO t VALUES ($1, 'a')", i); err != nil {
				t.Errorf("%s: the newest holder: %v", timeout, err)
				continue
			}
			if _, err := next.Exec(t.Context(), "SELECT pg_sleep(60)"); err == nil {
				t.Errorf("%s does not hold behind the claim", timeout)
			}
		}
	})
}
