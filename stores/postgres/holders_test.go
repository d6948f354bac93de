package pgstore

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// holder is a token for the i-th of many resources.
func holder(i int) guard.Token {
	token := writer(33)
	token.Resource = fmt.Sprint("resource ", i)
	return token
}

// With many holders in turn every check is one comparison, on connections that
// have not seen the holder before too: the function that decides by the token
// raises here, and is not called.
func TestManyHolders(t *testing.T) {
	t.Parallel()
	const holders = 300
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, testenv.Postgres(t), Config{})
			store := newStore(t, openPool(t, e.url, inMode(mode, 1)), Config{})
			for i := range holders {
				mustClaim(t, store, holder(i))
			}
			e.asAdmin(t, `create or replace function fence.ticket(token text, out seq oid, out epoch bigint)
				language plpgsql as $$ begin raise exception 'a slow check of %', token; end $$`)
			for range 2 {
				for i := range holders {
					if err := store.InTx(t.Context(), holder(i), update(1)); err != nil {
						t.Fatal(err)
					}
					if _, err := store.Exec(t.Context(), holder(i), "update t set n = n + 1 where id = 1"); err != nil {
						t.Fatal(err)
					}
				}
				store.pool.Reset() // the next connection has seen none of them
			}
			if got := n(t, e, 1); got != 4*holders {
				t.Errorf("n = %d, want %d", got, 4*holders)
			}
		})
	}
}

// A claim that a store forgets, for others or in the middle of a transaction,
// is worth no less, and no more: the current holder goes on (I3), a stale one
// is refused (I1).
func TestForgottenClaim(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	forgetful := func(token guard.Token, newer ...guard.Token) error {
		return e.store.InTx(t.Context(), token, func(ctx context.Context, tx pgx.Tx) error {
			e.store.claims.forget(token)
			for _, next := range newer {
				mustClaim(t, newStore(t, e.pool, Config{}), next)
			}
			return update(1)(ctx, tx)
		})
	}
	for range 2 {
		if err := forgetful(writer(33)); err != nil {
			t.Errorf("current: %v", err)
		}
	}
	if err := forgetful(writer(33), writer(34)); !errors.Is(err, guard.ErrStale) {
		t.Errorf("forgotten before the newer claim: %v", err)
	}
	e.store.claims.forget(writer(33))
	if err := e.store.InTx(t.Context(), writer(33), update(1)); !errors.Is(err, guard.ErrStale) {
		t.Errorf("forgotten, and stale: %v", err)
	}
	if got := n(t, e, 1); got != 2 {
		t.Errorf("n = %d, want 2", got)
	}
}

// spoil gives a claimed token another ticket.
func spoil(s *Store, g grant, t ticket) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	g.ticket = t
	s.claims.done[g.token] = g
}

// A ticket that does not match costs one slow check, and then is another.
func TestTicketIsRenewed(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	mustClaim(t, e.store, writer(33))
	good, _ := e.store.claims.find(writer(33))
	for _, run := range []func() error{
		func() error { return e.store.InTx(t.Context(), writer(33), update(1)) },
		func() error {
			_, err := e.store.Exec(t.Context(), writer(33), "update t set n = n + 1 where id = 1")
			return err
		},
	} {
		spoil(e.store, good, ticket{seq: good.ticket.seq, epoch: good.ticket.epoch ^ 1})
		if err := run(); err != nil {
			t.Fatal(err)
		}
		if now, _ := e.store.claims.find(writer(33)); now.ticket != good.ticket {
			t.Errorf("the ticket is %v, want %v", now.ticket, good.ticket)
		}
	}
}

// A ticket whose sequence is gone, another's, or no sequence fails one
// transaction, which is not applied; the next one claims again.
func TestTicketOfNoSequence(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		mustClaim(t, e.store, writer(33))
		mustExec(t, e.pool, "create sequence other")
		good, _ := e.store.claims.find(writer(33))
		for what, seq := range map[string]string{
			"gone":           "1::oid",
			"a table":        "'t'::regclass::oid",
			"another's":      "'other'::regclass::oid",
			"not readable":   "'fence.selftest_seq'::regclass::oid",
			"of the catalog": "'pg_class'::regclass::oid",
		} {
			spoil(e.store, good, ticket{seq: query[uint32](t, e.pool, "select "+seq), epoch: good.ticket.epoch})
			before := n(t, e, 1)
			err := e.store.InTx(t.Context(), writer(33), update(1))
			if err != nil && guard.OutcomeOf(err) != guard.NotApplied {
				t.Errorf("%s: %v, outcome %v", what, err, guard.OutcomeOf(err))
			}
			if err == nil {
				before++
			}
			if err := e.store.InTx(t.Context(), writer(33), update(1)); err != nil {
				t.Errorf("%s, again: %v", what, err)
			}
			if got := n(t, e, 1); got != before+1 {
				t.Errorf("%s: n = %d, want %d", what, got, before+1)
			}
		}
	})
}
