package migrations_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// One session, line by line: the setting moves and the cached ticket stays
// behind, or the other way round. Whatever is wrong, fence.check() decides.
func TestBindFollowsTheSetting(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.proxied(t)
		const (
			wrote = "2 3 C(INSERT 0 1) Z(I)"
			stale = "E(TK001) Z(I)"
		)
		insert := func(what, want string, check []pgproto3.FrontendMessage) {
			t.Helper()
			client := []pgproto3.FrontendMessage{simple("insert into " + s.table + " values (33)")}
			if want != wrote {
				client = append(client, &pgproto3.Sync{})
			}
			trace, _ := ask(t, s.old, check, client...)
			traced(t, what, trace, want)
		}
		t33, t34 := s.r.writer(33), s.r.writer(34)
		insert("current, cached", wrote, first.bind(t33, s.ticket))
		insert("current, nothing cached", wrote, first.bind(nil, nil))
		insert("current, no ticket", wrote, first.bind(t33, nil))
		for _, wrong := range []string{"{}", "{NULL,NULL}", fmt.Sprintf("{%d,NULL}", s.ticket.seq), fmt.Sprintf("{{%d,%d}}", s.ticket.seq, s.ticket.epoch), fmt.Sprintf("[2:3]={%d,%d}", s.ticket.seq, s.ticket.epoch)} {
			insert("current, the ticket "+wrong, wrote, first.bind(t33, wrong)) // the check decides
		}
		insert("an epoch that was not", wrote, first.bind(t33, ticket{s.ticket.seq, s.ticket.epoch ^ 1}))
		insert("no such sequence", "E(XX000) Z(I)", first.bind(t33, ticket{1, 1}))
		carry(t, s.old, s.r.writer(32))
		insert("an older token is set, cached", stale, first.bind(t33, s.ticket))
		carry(t, s.old, t33)
		next := claim(t, s.next, t34)
		insert("a newer claim", stale, first.bind(t33, s.ticket))
		insert("a newer claim, nothing cached", stale, first.bind(nil, nil))
		carry(t, s.old, t34)
		insert("moved on, the old ticket cached", wrote, first.bind(t33, s.ticket))
		insert("moved on", wrote, first.bind(t34, next))
		for what, tokens := range map[string]string{"malformed": "ft1:x:34", "half a list": t34 + ",", "twice": t34 + "," + t34} {
			carry(t, s.old, tokens)
			insert(what, "E(TK006) Z(I)", first.bind(t34, next))
		}
		for token, want := range map[string]string{
			s.r.writer(35): "TK004", strings.Replace(t34, ":h34:", ":other:", 1): "TK002", strings.Replace(t34, ":i:", ":j:", 1): "TK003",
			s.r.reader(33): "TK001", "ft1:x:1:::nobody": "TK004",
		} {
			carry(t, s.old, token)
			insert(token, "E("+want+") Z(I)", first.bind(t34, next))
		}
		exec(t, s.old, "reset fence.token")
		insert("none, a ticket cached", "E(TK005) Z(I)", first.bind(t34, next))
		insert("none, none cached", "E(TK005) Z(I)", first.bind("", next)) // '' is no token that could be held
	})
}

// A check that waits for a claim that is under way can be seen, and says then
// what the claim has made of its token.
func TestBindWaitsForClaim(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		for _, end := range []string{"commit", "rollback"} {
			s := d.proxied(t)
			exec(t, s.next, "begin")
			claim(t, s.next, s.r.writer(34))
			traces := make(chan string, 1)
			go func() {
				trace, _, err := exchange(t.Context(), s.old, append(first.bind(s.r.writer(33), s.ticket), simple("insert into "+s.table+" values (33)"), &pgproto3.Sync{})...)
				if err != nil {
					trace = err.Error()
				}
				traces <- trace
			}()
			d.blocked(t, s.old)
			if text := query[string](t, s.next, "select query from pg_stat_activity where pid = $1", s.old.PgConn().PID()); text != "/* fence check */" {
				t.Errorf("who looks at what waits sees %q", text)
			}
			exec(t, s.next, end)
			if end == "commit" {
				traced(t, end, <-traces, "E(TK001) Z(I)")
				continue
			}
			traced(t, end, <-traces, "2 3 C(INSERT 0 1) Z(I)")
			trace, _ := talk(t, s.old)
			traced(t, "of the Sync", trace, "Z(I)")
		}
	})
}

// I1, I9: what the last check finds, at each level, when a newer claim came
// after the snapshot, and after the write.
func TestBindLastSeesPastSnapshot(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		for _, level := range levels {
			for name, check := range map[string]func(s *stage) []pgproto3.FrontendMessage{
				"fast": func(s *stage) []pgproto3.FrontendMessage { return last.bind(s.r.writer(33), s.ticket) },
				"slow": func(s *stage) []pgproto3.FrontendMessage { return lastSlow.bind(s.r.writer(33), "read-only") },
			} {
				t.Run(level+"/"+name, func(t *testing.T) {
					t.Parallel()
					s := d.proxied(t)
					talk(t, s.old, simple("begin isolation level "+level))
					s.write(t, s.old, 33)
					trace, _ := ask(t, s.old, check(s), simple("commit"))
					traced(t, "current", trace, "2 3 C(COMMIT) Z(I)")
					talk(t, s.old, simple("begin isolation level "+level))
					s.write(t, s.old, 33)
					claim(t, s.next, s.r.writer(34)) // waits for nobody
					trace, _ = ask(t, s.old, check(s), simple("commit"), &pgproto3.Sync{})
					traced(t, "stale", trace, "E(TK001) Z(E)")
					trace, _ = talk(t, s.old, simple("rollback"))
					traced(t, "what the proxy does then", trace, "C(ROLLBACK) Z(I)")
					if got := s.rows(t, s.next, 33); got != 1 {
						t.Errorf("%d rows, want the one from before the claim", got)
					}
				})
			}
		}
	})
}

// I9: a block that began before its token was claimed may have read too early.
func TestBindRefusesBlockBeforeClaim(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		for name, check := range map[string]func(token string) []pgproto3.FrontendMessage{
			"first":      func(string) []pgproto3.FrontendMessage { return first.bind(nil, nil) },
			"last":       func(token string) []pgproto3.FrontendMessage { return last.bind(token, nil) },
			"last, slow": func(token string) []pgproto3.FrontendMessage { return lastSlow.bind(token, "allow") },
			"enters":     func(string) []pgproto3.FrontendMessage { return enters.bind("allow") },
		} {
			s := d.proxied(t)
			token := s.r.writer(34)
			carry(t, s.old, token)
			talk(t, s.old, simple("begin"))
			claim(t, s.next, token)
			trace, _ := ask(t, s.old, check(token), &pgproto3.Sync{})
			traced(t, name, trace, "E(TK004) Z(E)")
			talk(t, s.old, simple("rollback"))
			trace, _ = ask(t, s.old, check(token), &pgproto3.Sync{})
			traced(t, name+", the next one", trace, "2 3 Z(I)")
		}
	})
}
