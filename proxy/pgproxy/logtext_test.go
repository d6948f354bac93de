package pgproxy

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// TestStatementsInTheLog: a refusal is logged with the text of what was refused,
// however that came, if that is wanted, and else never.
func TestStatementsInTheLog(t *testing.T) {
	t.Parallel()
	long := "SELECT 'x" + strings.Repeat("ä", 1000) + "'"
	const call, commit = "DO $$ BEGIN PERFORM 'refused'; END $$", "COMMIT -- refused"
	steps := []step{
		named("i", insertOne), named("c", commit), query("BEGIN"), query(insertOne), nil,
		{&pgproto3.Bind{PreparedStatement: "c", DestinationPortal: "p"}, &pgproto3.Execute{Portal: "p"}, &pgproto3.Sync{}},
		query("SELECT 'refused'"), query("BEGIN"), query(insertOne), query(commit), query(call), series(call), executed("i"),
		append(append(series("SELECT 'first'"), series("SELECT 'second'")...), query("SELECT 'third'")...),
		query("SELECT 1; COMMIT; SELECT 'unfenced'"), query(long), query("SELECT 'last'"),
	}
	want := []string{
		commit, "SELECT 'refused'", commit, call, call, insertOne, "SELECT 'first'", "SELECT 'second'", "SELECT 'third'",
		"SELECT 1; COMMIT; SELECT 'unfenced'", long[:1<<10-1] + "…", "SELECT 'last'",
	}
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		for _, wanted := range []bool{true, false} {
			var log lockedBuffer
			via := *sc
			via.resource = fmt.Sprint(wanted)
			via.addr, via.server = serveProxy(t, Config{
				Upstream: Upstream{Address: sc.server.config.Load().Upstream.Address}, LogStatements: wanted,
				Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			c := via.raw(via.via(via.token(1).String()))
			for _, s := range steps {
				if s == nil {
					via.claim(via.token(2))
					continue
				}
				c.play(t, s)
			}
			var got []string
			for line := range strings.Lines(log.String()) {
				var entry struct {
					Msg       string `json:"msg"`
					Statement string `json:"statement"`
				}
				if err := json.Unmarshal([]byte(line), &entry); err != nil {
					t.Fatal(err)
				}
				if entry.Msg == "statement refused" {
					got = append(got, entry.Statement)
				}
			}
			switch all := log.String(); {
			case wanted && !slices.Equal(got, want):
				t.Errorf("the log has %q\nwant %q", got, want)
			case wanted:
			case len(got) != len(want):
				t.Errorf("%d refusals, want %d", len(got), len(want))
			case strings.Contains(all, "SELECT"), strings.Contains(all, "INSERT"), strings.Contains(all, "PERFORM"):
				t.Errorf("nobody wanted statements in the log: %s", all)
			}
		}
	})
}
