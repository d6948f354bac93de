package pgproxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
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
