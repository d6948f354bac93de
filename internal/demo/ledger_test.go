package demo

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// deposit is a row of entries and its attempt, made up.
type deposit struct {
	number, amount int64
	told           string
	lost           bool // there is no entry
	untold         bool // there is no attempt
}

// What the demo claims rests on this count, so it is tried on ledgers with all
// that can go wrong.
func TestAccount(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testenv.Postgres(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	l := ledger{"made_up"}
	if err := l.create(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		deposits []deposit
		balance  int64
		want     Account
	}{
		"nothing": {nil, 1000, Account{Balance: 1000, Expected: 1000, Right: true}},
		"in order": {
			[]deposit{{number: 5, amount: 1, told: "committed"}, {number: 5, amount: 2, told: "committed"}, {number: 7, amount: 3, told: "committed"}},
			1006,
			Account{Acknowledged: 3, Entries: 3, Amount: 6, Balance: 1006, Expected: 1006, Right: true},
		},
		"a stale write that lost one": {
			[]deposit{{number: 7, amount: 10, told: "committed"}, {number: 5, amount: 100, told: "committed"}},
			1100,
			Account{StaleWritesApplied: 1, Acknowledged: 2, Entries: 2, Amount: 110, Balance: 1100, Expected: 1110},
		},
		"stale writes that lost nothing": {
			[]deposit{{number: 7, amount: 10, told: "committed"}, {number: 5, amount: 1, told: "committed"}, {number: 6, amount: 1, told: "committed"}, {number: 7, amount: 1, told: "committed"}},
			1013,
			Account{StaleWritesApplied: 2, Acknowledged: 4, Entries: 4, Amount: 13, Balance: 1013, Expected: 1013},
		},
		"refused": {
			[]deposit{{number: 7, amount: 10, told: "committed"}, {number: 5, amount: 100, told: "TK001", lost: true}},
			1010,
			Account{StaleWritesRefused: 1, Acknowledged: 1, Entries: 1, Amount: 10, Balance: 1010, Expected: 1010, Right: true},
		},
		"refused, but there": {
			[]deposit{{number: 7, amount: 10, told: "TK001"}},
			1010,
			Account{Entries: 1, Amount: 10, Balance: 1010, Expected: 1010},
		},
		"refused for another reason": {
			[]deposit{{number: 7, amount: 10, told: "TK003", lost: true}},
			1000,
			Account{Balance: 1000, Expected: 1000, Right: true},
		},
		"acknowledged, but not there": {
			[]deposit{{number: 7, amount: 10, told: "committed", lost: true}},
			1000,
			Account{Acknowledged: 1, Balance: 1000, Expected: 1000},
		},
		"there, but never told": {
			[]deposit{{number: 7, amount: 10, told: "nothing"}},
			1010,
			Account{Entries: 1, Amount: 10, Balance: 1010, Expected: 1010},
		},
		"there without an attempt": {
			[]deposit{{number: 7, amount: 10, untold: true}},
			1010,
			Account{Entries: 1, Amount: 10, Balance: 1010, Expected: 1010},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := l.open(t.Context(), conn, name); err != nil {
				t.Fatal(err)
			}
			l.fill(t, conn, name, c.balance, c.deposits)
			got, err := l.account(t.Context(), conn, name)
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("account: %+v\nwant     %+v", got, c.want)
			}
		})
	}
}

func (l ledger) fill(t *testing.T, db database, round string, balance int64, deposits []deposit) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	for i, d := range deposits {
		e := entry{round: round, attempt: fmt.Sprint(round, i), worker: "w", number: d.number, amount: d.amount}
		if !d.untold {
			must(l.attempt(t.Context(), db, e))
			must(l.told(t.Context(), db, e, d.told))
		}
		if !d.lost {
			must(l.write(t.Context(), db, e, 0))
		}
	}
	_, err := db.Exec(t.Context(), "UPDATE "+l.table("accounts")+" SET balance = $2 WHERE round = $1", round, balance)
	must(err)
}
