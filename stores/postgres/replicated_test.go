package pgstore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// replicated is an env whose commits wait for a standby that has stopped.
type replicated struct {
	*env
	pair  *testenv.PostgresPair
	watch *pgxpool.Pool
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	s := testenv.Postgres(t) // pg_basebackup is not there for every version
	pair := testenv.StartPostgresPair(t, testenv.PostgresConfig{Major: s.Major(), Settings: map[string]string{"checkpoint_timeout": "1d"}}, 0)
	r := &replicated{newEnv(t, pair.Primary(), Config{}), pair, nil}
	r.watch = openPool(t, r.admin, nil)
	r.asAdmin(t, "do $$ begin execute format('alter database %I set statement_timeout = 2000', current_database()); end $$") // must not end a wait for the standby
	r.pool.Reset()
	pair.Attach(t)
	mustClaim(t, r.store, writer(33))
	return r
}

const waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"

// waiting waits until so many commits wait for the standby.
func (r *replicated) waiting(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " commits that wait for the standby"), func() bool { return query[int](t, r.watch, waiting) == n })
}

// giveUp returns a ctx that ends when a commit waits for the standby.
func (r *replicated) giveUp(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() {
		defer cancel()
		for n := 0; n == 0 && ctx.Err() == nil; {
			if err := r.watch.QueryRow(ctx, waiting).Scan(&n); err != nil {
				return
			}
			<-time.After(2 * time.Millisecond)
		}
	})
	return ctx
}

// A bug that was here: a claim that was given up while it waited for the
// synchronous standby was made again at once, and lost when that was promoted
// (I1, I6).
func TestClaimAgainIsReplicated(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	r.pair.FreezeStandby(t)
	if err := r.store.Claim(r.giveUp(t), writer(34)); guard.OutcomeOf(err) != guard.Unknown {
		t.Fatalf("given up: %v", err)
	}
	eventually(t, "the first claim is over", func() bool {
		m, err := r.store.Mark(t.Context(), "orders")
		return err == nil && m.Writer == 34
	})
	for _, again := range []func(context.Context) error{
		func(ctx context.Context) error { return r.store.Claim(ctx, writer(34)) },
		func(ctx context.Context) error { return r.store.InTx(ctx, writer(34), update(1)) },
		func(ctx context.Context) error { return newStore(t, r.pool, Config{}).Claim(ctx, writer(34)) },
	} {
		r.waiting(t, 0)
		if err := again(r.giveUp(t)); err == nil {
			t.Error("the claim has returned, though the standby has nothing of it")
		}
	}
	last := make(chan error, 1)
	go func() { last <- r.store.Claim(t.Context(), writer(34)) }()
	r.waiting(t, 1)
	r.pair.ThawStandby(t)
	if err := <-last; err != nil {
		t.Errorf("with the standby: %v", err)
	}
}

// A bug that was here: TrackCommit told of a commit that was given up while it
// waited for the synchronous standby that it was there (I2).
func TestTrackedCommitIsReplicated(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	track := func() error {
		return r.store.InTxOptions(r.giveUp(t), writer(33), TxOptions{TrackCommit: true}, func(ctx context.Context, tx pgx.Tx) error {
			r.pair.FreezeStandby(t)
			return update(1)(ctx, tx)
		})
	}
	if err := track(); guard.OutcomeOf(err) != guard.Unknown {
		t.Errorf("without the standby: %v, outcome %v", err, guard.OutcomeOf(err))
	}
	r.pair.ThawStandby(t)
	r.waiting(t, 0)
	last := make(chan error, 1)
	go func() { last <- track() }()
	eventually(t, "the commit is there, and asked for", func() bool {
		return query[bool](t, r.watch, "select n = 2 from t where id = 1") &&
			query[bool](t, r.watch, "select exists (select from pg_stat_activity where wait_event = 'SyncRep')")
	})
	r.pair.ThawStandby(t)
	if err := <-last; err != nil {
		t.Errorf("with the standby again: %v, outcome %v", err, guard.OutcomeOf(err))
	}
}
