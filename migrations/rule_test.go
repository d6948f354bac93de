package migrations_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/guard/guardtest"
)

// compare checks that err refuses as reason says, and reports the mark.
func compare(t *testing.T, what string, err, reason error, mark guard.Mark) {
	t.Helper()
	if reason == nil {
		if err != nil {
			t.Errorf("%s: %v, want admitted", what, describe(err))
		}
		return
	}
	want, ok := carrier.RefusalOf(reason)
	if !ok {
		t.Fatalf("%s: %v has no SQLSTATE", what, reason)
	}
	if err == nil {
		t.Errorf("%s: admitted, want %s", what, want.SQLState)
		return
	}
	got := mustBe(t, err, want.SQLState, what)
	detail := fmt.Sprintf("mark: generation=%d writer=%d holder=%s reader=%d issuer=%s",
		mark.Generation, mark.Writer, mark.Holder, mark.Reader, mark.Issuer)
	if reason == guard.ErrMalformed || !mark.Touched() && got.Detail == "" { //nolint:errorlint // a row holds the sentinel itself
		detail = ""
	}
	if got.Detail != detail {
		t.Errorf("%s: detail %q, want %q", what, got.Detail, detail)
	}
	if got.Hint == "" {
		t.Errorf("%s: no hint", what)
	}
}

func (d *database) take(t *testing.T, conn *pgx.Conn, given []guardtest.Step, r resource) {
	t.Helper()
	for _, step := range given {
		if step.Adopt {
			exec(t, conn, "select fence.adopt($1, $2)", string(r), step.Issuer)
		} else {
			claim(t, conn, step.Token.String())
		}
	}
}

func TestRule(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.open(t)
		for i, c := range guardtest.Cases() {
			r := resource(fmt.Sprintf("case-%d", i))
			c = c.On(string(r))
			d.take(t, conn, c.Given, r)
			if got := markOf(t, conn, r); got != c.Before {
				t.Errorf("%s: mark before is %+v, want %+v", c.Name, got, c.Before)
			}
			text := c.Token.String()
			_, err := conn.Exec(t.Context(), "select fence.check($1)", text)
			compare(t, c.Name+", check", err, c.Check, c.Before)
			if got := markOf(t, conn, r); got != c.Before {
				t.Errorf("%s: a check made the mark %+v, from %+v", c.Name, got, c.Before)
			}
			_, err = tryClaim(t.Context(), conn, text)
			compare(t, c.Name+", claim", err, c.Claim, c.Before)
			if got := markOf(t, conn, r); got != c.After {
				t.Errorf("%s: mark after is %+v, want %+v", c.Name, got, c.After)
			}
			if c.Claim == nil {
				exec(t, conn, "select fence.check($1)", text)
			}
		}
	})
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.open(t)
		for i, c := range guardtest.AdoptCases() {
			r := resource(fmt.Sprintf("adopt-%d", i))
			c = c.On(string(r))
			d.take(t, conn, c.Given, r)
			before := markOf(t, conn, r)
			_, err := conn.Exec(t.Context(), "select fence.adopt($1, $2)", string(r), c.Issuer)
			if refused := err != nil; refused != c.Refused {
				t.Errorf("%s: %v, want refused: %t", c.Name, describe(err), c.Refused)
			}
			if got := markOf(t, conn, r); got != c.After {
				t.Errorf("%s: mark after is %+v, want %+v", c.Name, got, c.After)
			}
			logged := query[int](t, conn, `select count(*) from fence.adoptions where resource = $1 and generation = $2
				and issuer = $3 and issuer_before = $4 and writer = $5 and holder = $6 and reader = $7 and adopted_by = session_user`,
				string(r), c.After.Generation, c.After.Issuer, before.Issuer, before.Writer, before.Holder, before.Reader)
			if !c.Refused && logged != 1 {
				t.Errorf("%s: the log has %d rows for it", c.Name, logged)
			}
		}
	})
}

// A history of one resource, long and random, once in SQL and once in the
// model that knows no marks.
func TestRandomHistory(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.open(t)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 0))
		var model guardtest.Model
		pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
		issuers := []string{"", "i", "j", "k"}
		for i := range 400 {
			if rnd.IntN(25) == 0 {
				issuer := pick(issuers...)
				_, err := conn.Exec(t.Context(), "select fence.adopt('r', $1)", issuer)
				if admitted := model.Adopt(issuer); admitted != (err == nil) {
					t.Fatalf("step %d: adopt %q: %v, model says %t", i, issuer, describe(err), admitted)
				}
				continue
			}
			now := model.Mark()
			token := guard.Token{
				Resource: "r", Number: max(1, max(now.Writer, now.Reader)+int64(rnd.IntN(5))-3),
				Mode: guard.Mode(pick("x", "s")[0]), Holder: pick("", "a", "b"), Issuer: now.Issuer,
			}
			if rnd.IntN(5) == 0 {
				token.Issuer = pick(issuers...)
			}
			what := fmt.Sprintf("step %d: %s at %+v", i, token, now)
			_, err := conn.Exec(t.Context(), "select fence.check($1)", token.String())
			compare(t, what+", check", err, model.Check(token), now)
			_, err = tryClaim(t.Context(), conn, token.String())
			compare(t, what+", claim", err, model.Claim(token), now)
			if got := markOf(t, conn, "r"); got != model.Mark() {
				t.Fatalf("%s: mark is %+v, want %+v", what, got, model.Mark())
			}
		}
	})
}

// Both overloads and both ways to hand over several tokens decide alike.
func TestChecksAgree(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.open(t)
		current, other, stale := resource("a").writer(34), resource("b").writer(7), resource("a").writer(33)
		claim(t, conn, current)
		claim(t, conn, other)
		for tokens, state := range map[string]string{
			current: "", current + "," + other: "", stale: "TK001", other + "," + stale: "TK001", stale + "," + other: "TK001",
			current + "," + resource("c").writer(1): "TK004", "": "TK005", "x": "TK006", current + ",": "TK006",
			current + "," + stale: "TK006",
		} {
			for _, sql := range []string{"select fence.check($1)", "select fence.ticket($1)", "select set_config('fence.token', $1, true), fence.check()"} {
				_, err := conn.Exec(t.Context(), sql, tokens)
				if got := stateOf(err); got != state {
					t.Errorf("%s of %q: %v, want %q", sql, tokens, describe(err), state)
				}
			}
		}
		exec(t, conn, "reset fence.token")
		fails(t, conn, "TK005", "select fence.check()")
		fails(t, conn, "TK005", "select fence.check(null)")
		fails(t, conn, "TK005", "select fence.claim(null)")
		if got := query[*int64](t, conn, "select epoch from fence.check($1)", current+","+other); got != nil {
			t.Errorf("a list of tokens has ticket %d", *got)
		}
	})
}
