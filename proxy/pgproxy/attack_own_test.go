package pgproxy

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
)

// TestAttacksByOwnStatements: what the proxy has prepared for itself, COMMIT among
// it, is of no use to a stale client, nor is what it puts in its place.
func TestAttacksByOwnStatements(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		begin := func() (c *raw, commit string) {
			c = sc.raw(sc.via(sc.token(1).String()))
			c.say(t, query("SELECT name FROM pg_prepared_statements WHERE statement = 'COMMIT'")...)
			row := c.hear(1, "D")
			c.hear(1, "Z:I")
			if commit = strings.Trim(row[len(row)-1], `D:["]`); !strings.HasPrefix(commit, gate.OwnPrefix) {
				t.Fatalf("COMMIT is prepared as %q", row)
			}
			return c, commit
		}
		c, commit := begin()
		other, check := begin()
		check = strings.TrimSuffix(check, "7") + "0"
		admin := sc.admin()
		insert, escaped := query("INSERT INTO t VALUES (2, 'a')"), strings.Replace(commit, "_", `\005f`, 1)
		c.play(t, query("BEGIN"), insert)
		other.play(t, step{
			&pgproto3.Close{ObjectType: 'S', Name: check}, &pgproto3.Parse{Name: check, Query: "SELECT $1::text, $2::int8[]"}, &pgproto3.Sync{},
		})
		sc.claim(sc.token(2))
		var got []string
		for _, steps := range [][]step{
			{executed(commit)},
			{query("EXECUTE " + commit)},
			{series("EXECUTE " + strings.ToUpper(commit))},
			{query(`EXECUTE U&"` + escaped + `"`)},
		} {
			got = append(got, c.play(t, steps...), c.play(t, query("ROLLBACK"), query("BEGIN"), insert))
		}
		got = append(got, c.play(t, query("ROLLBACK")), other.play(t, insert))
		if n := sc.run(admin, "SELECT count(*) FROM t"); n != "0|" {
			t.Errorf("%s rows are written: %q", n, got)
		}
	})
}
