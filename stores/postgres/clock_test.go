package pgstore

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// A bug that was here: with the server's clock set back after the claim, or that
// of a promoted standby behind, the current holder was refused at protected
// tables (I3). A mark whose time lies ahead is the same.
func TestClockSetBackAtProtectedTable(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		if err := e.store.Protect(t.Context(), pgx.Identifier{"t"}, "orders"); err != nil {
			t.Fatal(err)
		}
		other := writer(7)
		other.Resource = "invoices"
		mustClaim(t, e.store, writer(33))
		mustClaim(t, e.store, other)
		e.asAdmin(t, "update fence.marks set since = since + interval '1 h'")
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
			store := newStore(t, openPool(t, e.url, inMode(mode, 2)), Config{})
			for range 2 {
				if err := store.InTx(t.Context(), writer(33), update(1)); err != nil {
					t.Errorf("%v: %v", mode, err)
				}
				if err := store.InTxOptions(t.Context(), writer(33), TxOptions{TxOptions: pgx.TxOptions{IsoLevel: pgx.Serializable}, Also: []guard.Token{other}}, update(1)); err != nil {
					t.Errorf("%v, with another: %v", mode, err)
				}
				if _, err := store.Exec(t.Context(), writer(33), "update t set n = n + 1 where id = 1"); err != nil {
					t.Errorf("%v, statement: %v", mode, err)
				}
			}
		}
	})
}
