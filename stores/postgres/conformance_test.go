package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/guardtest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		for name, c := range map[string]Config{"default": {}, "lean": {Lean: true}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				guardtest.Exercise(t, newTarget(t, s, c))
			})
		}
	})
}

// target is a table of values, written in every way that the store has.
type target struct {
	*Store
	pool, admin *pgxpool.Pool
	names       atomic.Int64
	ways        atomic.Int64
}

var _ interface {
	guardtest.Target
	guardtest.Marker
	guardtest.Adopter
	guardtest.Opener
	guardtest.Entrant
} = (*target)(nil)

func newTarget(t *testing.T, s *testenv.PostgresServer, c Config) *target {
	t.Helper()
	e := newEnv(t, s, Config{})
	pool := openPool(t, e.url, func(c *pgxpool.Config) { c.MaxConns = 12 })
	mustExec(t, pool, "create table w (resource text not null, value text not null)")
	return &target{Store: newStore(t, pool, c), pool: pool, admin: openPool(t, e.admin, nil)}
}

func (g *target) NewResource(context.Context) (string, error) {
	return fmt.Sprintf("resource %d / ü", g.names.Add(1)), nil
}

const insertSQL = "insert into w (resource, value) values ($1, $2)"

func insert(token guard.Token, value string) func(ctx context.Context, tx pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertSQL, token.Resource, value)
		return err
	}
}

// Write runs the transaction again after a serialization failure, as callers
// have to.
func (g *target) Write(ctx context.Context, token guard.Token, value string) error {
	for {
		err := g.write(ctx, token, value)
		if !isError(err, "40001") {
			return err
		}
		if guard.OutcomeOf(err) != guard.NotApplied {
			return fmt.Errorf("serialization failure with outcome %v", guard.OutcomeOf(err))
		}
	}
}

func (g *target) write(ctx context.Context, token guard.Token, value string) error {
	levels := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	way := int(g.ways.Add(1)) % (len(levels) + 2)
	switch {
	case way < len(levels):
		return g.InTxOptions(ctx, token, TxOptions{TxOptions: pgx.TxOptions{IsoLevel: levels[way]}, TrackCommit: value[0]%2 == 0}, insert(token, value))
	case way == len(levels):
		_, err := g.Exec(ctx, token, insertSQL, token.Resource, value)
		return err
	}
	var b pgx.Batch
	b.Queue("select 1")
	b.Queue(insertSQL, token.Resource, value)
	return g.SendBatch(ctx, token, &b)
}

func (g *target) Written(ctx context.Context, resource string) ([]string, error) {
	rows, _ := g.pool.Query(ctx, "select value from w where resource = $1", resource)
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (g *target) Adopt(ctx context.Context, resource, issuer string) error {
	_, err := g.admin.Exec(ctx, "select fence.adopt($1, $2)", resource, issuer)
	return err
}

// Open runs fn of a transaction up to its end.
func (g *target) Open(ctx context.Context, token guard.Token, value string) (func(context.Context) error, error) {
	written, finish, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- g.InTx(ctx, token, func(ctx context.Context, tx pgx.Tx) error {
			if err := insert(token, value)(ctx, tx); err != nil {
				return err
			}
			close(written)
			<-finish
			return nil
		})
	}()
	select {
	case <-written:
		return func(context.Context) error { close(finish); return <-done }, nil
	case err := <-done:
		return nil, err
	}
}

// Every race of the research: an old snapshot, a newer claim, and the old
// holder at its COMMIT (I1). The new holder does not wait for it (I4).
func TestOldSnapshotNewClaim(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{ClaimWait: 20 * time.Second})
		number := int64(33)
		for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
			for _, cached := range []bool{false, true} {
				o := TxOptions{TxOptions: pgx.TxOptions{IsoLevel: level}}
				if cached {
					for range 8 { // every connection has the ticket
						if err := e.store.InTxOptions(t.Context(), writer(number), o, update(50)); err != nil {
							t.Fatal(err)
						}
					}
				}
				err := e.store.InTxOptions(t.Context(), writer(number), o, func(ctx context.Context, tx pgx.Tx) error {
					var n int
					err := errors.Join(tx.QueryRow(ctx, "select n from t where id = 1").Scan(&n), update(2)(ctx, tx))
					start := time.Now()
					mustClaim(t, e.store, writer(number+1))
					if took := time.Since(start); took > 5*time.Second {
						t.Errorf("%v: the claim waited %s for a transaction without a check", level, took)
					}
					return err
				})
				if !errors.Is(err, guard.ErrStale) || guard.OutcomeOf(err) != guard.Refused {
					t.Errorf("%v, cached %v: %v", level, cached, err)
				}
				number++
			}
		}
		if n(t, e, 2) != 0 {
			t.Error("a stale write was committed")
		}
	})
}

// A check that waits behind an open claim sees it, at every level (I1); one
// that rolled back leaves the old holder admitted (I3) and no ticket that
// passes.
func TestCheckWaitsBehindClaim(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		number := int64(33)
		for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
			for _, how := range []string{"commit", "rollback"} {
				mustClaim(t, e.store, writer(number))
				claim, err := pgx.Connect(t.Context(), e.url)
				if err != nil {
					t.Fatal(err)
				}
				defer claim.Close(context.Background())
				open := ask(t, claim, "begin; select epoch from fence.claim('"+writer(number+1).String()+"')")
				done := make(chan error, 1)
				go func() {
					o := TxOptions{TxOptions: pgx.TxOptions{IsoLevel: level}}
					done <- e.store.InTxOptions(t.Context(), writer(number), o, update(1))
				}()
				eventually(t, "the check waits", func() bool {
					return query[bool](t, e.pool, "select exists (select from pg_locks where mode = 'RowExclusiveLock' and not granted)")
				})
				if _, err := claim.Exec(t.Context(), how); err != nil {
					t.Fatal(err)
				}
				err = <-done
				switch {
				case how == "commit" && !errors.Is(err, guard.ErrStale):
					t.Errorf("%v: behind a claim that committed: %v", level, err)
				case how == "rollback" && err != nil:
					t.Errorf("%v: behind a claim that rolled back: %v", level, err)
				case how == "rollback":
					forged := newStore(t, openPool(t, e.url, nil), Config{})
					var epoch uint64
					if _, err := fmt.Sscan(open, &epoch); err != nil {
						t.Fatal(err)
					}
					stale, _ := e.store.claims.find(writer(number))
					stale.token, stale.text = writer(number+1), writer(number+1).String()
					stale.ticket.epoch = epoch
					forged.claims.done = map[guard.Token]grant{stale.token: stale}
					forged.checked.Store(true)
					if err := forged.InTx(t.Context(), stale.token, update(1)); !errors.Is(err, guard.ErrUnclaimed) {
						t.Errorf("%v: the ticket of a claim that rolled back: %v", level, err)
					}
				}
				number += 2
			}
		}
	})
}

// I9: 34 is granted; 33 commits; 34 must not overwrite that with what it read
// before. InTx claims before fn reads anything, so either 33 comes first and is
// seen, or it is refused.
func TestReadsAfterClaim(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		levels := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
		for number := int64(33); number < 63; number++ {
			o := TxOptions{TxOptions: pgx.TxOptions{IsoLevel: levels[number%3]}}
			increment := func(token guard.Token, read chan<- struct{}) error {
				return newStore(t, e.pool, Config{}).InTxOptions(t.Context(), token, o, func(ctx context.Context, tx pgx.Tx) error {
					var n int
					err := tx.QueryRow(ctx, "select n from t where id = 1").Scan(&n)
					if read != nil {
						close(read)
					}
					_, err2 := tx.Exec(ctx, "update t set n = $1, by = $2 where id = 1", n+1, token.Number)
					return errors.Join(err, err2)
				})
			}
			before, read, done := n(t, e, 1), make(chan struct{}), make(chan error, 1)
			go func() { done <- increment(writer(number), read) }()
			<-read
			newer := increment(writer(number+1), nil)
			older := <-done
			want := before
			for _, err := range []error{older, newer} {
				if err == nil {
					want++
				}
			}
			if got := n(t, e, 1); got != want {
				t.Fatalf("%v: n = %d, want %d: a lost update (old: %v, new: %v)", o.IsoLevel, got, want, older, newer)
			}
			if newer != nil && !isError(newer, "40001") {
				t.Errorf("%v: the new holder: %v", o.IsoLevel, newer)
			}
			if older != nil && !errors.Is(older, guard.ErrStale) && !isError(older, "40001") {
				t.Errorf("%v: the old holder: %v", o.IsoLevel, older)
			}
			number++
		}
	})
}
