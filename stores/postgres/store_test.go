package pgstore

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// Checks wait for claims in the order of resources, whatever order the caller
// has: otherwise two transactions and two claims could wait in a ring.
func TestChecksComeInOrder(t *testing.T) {
	t.Parallel()
	b, a, c := guard.Token{Resource: "b"}, guard.Token{Resource: "a"}, guard.Token{Resource: "c"}
	for _, grants := range [][]grant{sorted(b, []guard.Token{a, c}), sorted(c, []guard.Token{b, a})} {
		for i, want := range []guard.Token{a, b, c} {
			if grants[i].token != want {
				t.Errorf("place %d: %q, want %q", i, grants[i].token.Resource, want.Resource)
			}
		}
	}
}

// PostgreSQL tells prepared statements apart by the first 63 bytes of their
// names.
func TestNamesOfBegin(t *testing.T) {
	t.Parallel()
	names := map[string]string{}
	for _, level := range []pgx.TxIsoLevel{"", pgx.Serializable, pgx.RepeatableRead, pgx.ReadCommitted, pgx.ReadUncommitted} {
		for _, access := range []pgx.TxAccessMode{"", pgx.ReadWrite, pgx.ReadOnly} {
			for _, deferrable := range []pgx.TxDeferrableMode{"", pgx.Deferrable, pgx.NotDeferrable} {
				text := beginText(level, access, deferrable)
				name := beginPrefix + text
				name = name[:min(len(name), 63)]
				if other, taken := names[name]; taken {
					t.Errorf("%q and %q", text, other)
				}
				names[name] = text
			}
		}
	}
	if len(names) >= maxCommands {
		t.Errorf("%d ways to begin", len(names))
	}
}

func TestInTx(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		for range 3 {
			if err := e.store.InTx(t.Context(), writer(33), update(1)); err != nil {
				t.Fatal(err)
			}
		}
		mustClaim(t, e.store, writer(34))
		err := e.store.InTx(t.Context(), writer(33), update(1))
		if !errors.Is(err, guard.ErrStale) || guard.OutcomeOf(err) != guard.Refused {
			t.Fatalf("stale: %v, %v", err, guard.OutcomeOf(err))
		}
		if n := query[int](t, e.pool, "select n from t where id = 1"); n != 3 {
			t.Errorf("n = %d, want 3", n)
		}
	})
}
