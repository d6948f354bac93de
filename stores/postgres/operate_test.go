package pgstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func TestMark(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	if mark, err := e.store.Mark(t.Context(), "orders"); err != nil || mark.Touched() {
		t.Errorf("nobody claimed: %+v, %v", mark, err)
	}
	mustClaim(t, e.store, writer(33))
	want := guard.Mark{Issuer: "i", Writer: 33, Holder: "h33"}
	if mark, err := e.store.Mark(t.Context(), "orders"); err != nil || mark != want {
		t.Errorf("%+v, %v; want %+v", mark, err, want)
	}
}

// A refusal carries the token, the mark and the server's own error, and is one
// line in the log.
func TestRefusal(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		var lines bytes.Buffer
		store := newStore(t, e.pool, Config{Logger: slog.New(slog.NewJSONHandler(&lines, nil))})
		other := guard.Token{Resource: "invoices", Number: 7, Mode: guard.Exclusive}
		both := TxOptions{Also: []guard.Token{other}}
		if err := store.InTxOptions(t.Context(), writer(33), both, update(1)); err != nil {
			t.Fatal(err)
		}
		newer := other
		newer.Number = 8
		mustClaim(t, e.store, newer)
		err := store.InTxOptions(t.Context(), writer(33), both, update(1))
		var refused *guard.RefusedError
		var pgErr *pgconn.PgError
		if !errors.As(err, &refused) || refused.Token != other || refused.Mark.Writer != 8 || !errors.As(err, &pgErr) || pgErr.Code != "TK001" {
			t.Errorf("%+v", err)
		}
		var line struct {
			Resource  string `json:"resource"`
			Presented string `json:"presented"`
			Mark      string `json:"mark"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Resource != "invoices" || line.Presented != "mode=x number=7 issuer=" || line.Mark != "generation=0 writer=8 reader=0 issuer=" {
			t.Errorf("log %q: %v", lines.String(), err)
		}
		foreign := writer(34)
		foreign.Issuer = "another"
		if err := store.Claim(t.Context(), foreign); !errors.Is(err, guard.ErrForeign) {
			t.Errorf("another issuer: %v", err)
		}
		nameless := writer(33)
		nameless.Holder = ""
		if err := store.Claim(t.Context(), nameless); !errors.Is(err, guard.ErrDuplicate) {
			t.Errorf("an empty holder: %v", err)
		}
	})
}

// Adoption ends the old issuer's tokens and tickets for good.
func TestAdopt(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		for range 2 {
			if err := e.store.InTx(t.Context(), writer(33), update(1)); err != nil {
				t.Fatal(err)
			}
		}
		e.asAdmin(t, "select fence.adopt('orders', 'j')")
		for range 2 {
			if err := e.store.InTx(t.Context(), writer(33), update(1)); !errors.Is(err, guard.ErrForeign) {
				t.Errorf("after the adoption: %v", err)
			}
		}
		adopted := writer(1)
		adopted.Issuer = "j"
		if err := e.store.InTx(t.Context(), adopted, update(1)); err != nil {
			t.Error(err)
		}
		e.asAdmin(t, "select fence.adopt('orders', 'k')")
		for _, token := range []guard.Token{writer(33), adopted} {
			if err := e.store.InTx(t.Context(), token, update(1)); !errors.Is(err, guard.ErrForeign) {
				t.Errorf("%s after the second adoption: %v", token, err)
			}
		}
	})
}

func TestEvictAndBlockers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	mustClaim(t, e.store, writer(33))
	ready, done := make(chan int, 1), make(chan error, 1)
	go func() {
		done <- e.store.InTx(t.Context(), writer(33), func(ctx context.Context, tx pgx.Tx) error {
			err := update(1)(ctx, tx)
			ready <- int(tx.Conn().PgConn().PID())
			return errors.Join(err, waitLost(ctx, tx))
		})
	}()
	pid := <-ready
	if blockers, err := e.store.Blockers(t.Context(), "orders"); err != nil || len(blockers) != 0 {
		t.Errorf("a current holder before its check blocks nobody: %+v, %v", blockers, err)
	}
	mustClaim(t, e.store, writer(34)) // does not wait
	blockers, err := e.store.Blockers(t.Context(), "orders")
	if err != nil || len(blockers) != 1 || blockers[0].PID != pid || !blockers[0].Evictable || blockers[0].State != "idle in transaction" || time.Since(blockers[0].Since) > time.Minute {
		t.Errorf("%+v, %v", blockers, err)
	}
	pids, err := e.store.Evict(t.Context(), "orders", 34)
	if err != nil || len(pids) != 1 || pids[0] != pid {
		t.Errorf("evicted %v, want %d: %v", pids, pid, err)
	}
	if err := <-done; guard.OutcomeOf(err) != guard.NotApplied {
		t.Error(err)
	}
	if err := e.store.InTx(t.Context(), writer(34), update(1)); err != nil {
		t.Error(err)
	}
}

// What a protected table's trigger refuses inside fn is a refusal of InTx, and
// fn's own error stays visible.
func TestProtectedTableInsideFn(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	if err := e.store.Protect(t.Context(), pgx.Identifier{"t"}, "other"); err != nil {
		t.Fatal(err)
	}
	mine := errors.New("mine")
	err := e.store.InTx(t.Context(), writer(33), func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(mine, update(1)(ctx, tx))
	})
	if !errors.Is(err, guard.ErrNoToken) || !errors.Is(err, mine) || guard.OutcomeOf(err) != guard.Refused {
		t.Errorf("%v, outcome %v", err, guard.OutcomeOf(err))
	}
	other := guard.Token{Resource: "other", Number: 7, Mode: guard.Exclusive}
	if err := e.store.InTxOptions(t.Context(), writer(33), TxOptions{Also: []guard.Token{other}}, update(1)); err != nil {
		t.Error(err)
	}
	if err := e.store.Protect(t.Context(), pgx.Identifier{"t"}, ""); !errors.Is(err, guard.ErrMalformed) {
		t.Errorf("no resource: %v", err)
	}
	if err := e.store.Protect(t.Context(), pgx.Identifier{"no", "such"}, "other"); err == nil {
		t.Error("no table")
	}
}

// An entry holds its fence, also against the session's timeouts, until Exit.
func TestEnter(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		e.asAdmin(t, "alter role "+e.pool.Config().ConnConfig.User+" set idle_in_transaction_session_timeout = '200ms'")
		store := newStore(t, openPool(t, e.url, nil), Config{ClaimWait: 700 * time.Millisecond})
		exit := holdEntry(t, store, writer(33))
		var blocked *BlockedError
		if err := store.Claim(t.Context(), writer(34)); !errors.As(err, &blocked) {
			t.Errorf("the entry did not hold: %v", err)
		}
		if err := store.InTx(t.Context(), writer(33), update(1)); err != nil {
			t.Errorf("a write beside the entry: %v", err)
		}
		exit()
		mustClaim(t, store, writer(34))
		if _, err := store.Enter(t.Context(), writer(33)); !errors.Is(err, guard.ErrStale) || guard.OutcomeOf(err) != guard.Refused {
			t.Errorf("stale: %v", err)
		}
		eventually(t, "connections are back", func() bool { return store.pool.Stat().AcquiredConns() == 0 })
	})
}
