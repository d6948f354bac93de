package pgproxy

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TestHotStandby: on a server that can only read, a token that was claimed before
// is checked like anywhere, with no lock that a standby does not have, and nobody
// claims there.
func TestHotStandby(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, shared *testenv.PostgresServer) {
		t.Parallel()
		s := testenv.StartPostgres(t, testenv.PostgresConfig{Major: shared.Major()})
		sc := newScene(t, s, Config{})
		admin := sc.connect(sc.url)
		sc.exec(sc.connect(sc.via(sc.token(2).String())), insertOne)
		// A server that finds this file waits for a primary, and may be read meanwhile.
		sc.exec(admin, "COPY (SELECT) TO PROGRAM 'cat > standby.signal'")
		sc.exec(admin, "CHECKPOINT")
		s.Restart(t)

		reads := []step{query("SELECT count(*) FROM t"), series("SELECT count(*) FROM t"), query("BEGIN ISOLATION LEVEL REPEATABLE READ"), query("SELECT count(*) FROM t"), query("COMMIT")}
		for name, c := range map[string]struct{ token, reads, writes string }{
			"current":         {sc.token(2).String(), "", "25006"},
			"without":         {"", "", "25006"},
			"two, of one":     {sc.token(2).String() + ",ft1:x:1:h:test:stock", "TK004", "TK004"},
			"stale":           {sc.token(1).String(), "TK001", "TK001"},
			"not yet claimed": {sc.token(3).String(), "TK004", "TK004"},
		} {
			r := sc.raw(sc.via(c.token))
			got := strings.Join(r.replay(t, reads[:2]...), " ")
			if c.reads == "" && strings.Count(got, `D:["1"]`) != 2 || c.reads != "" && strings.Count(got, "E:ERROR:"+c.reads) != 2 {
				t.Errorf("%s: %s", name, got)
			}
			got = strings.Join(r.replay(t, reads[2:]...), " ")
			if c.reads == "" && !strings.HasSuffix(got, `D:["1"] C:SELECT 1 Z:T C:COMMIT Z:I`) {
				t.Errorf("%s, in a block: %s", name, got)
			}
			if name == "without" { // a token would not help here
				_, err := sc.connect(sc.via("")).Exec(t.Context(), insertOne)
				explained(t, name, err, "", "")
			}
			if got := strings.Join(r.replay(t, query("INSERT INTO t VALUES (2)")), " "); !strings.HasPrefix(got, "E:ERROR:"+c.writes) {
				t.Errorf("%s writes: %s", name, got)
			}
		}
	})
}
