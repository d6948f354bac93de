package pgstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

func TestSchemaVersion(t *testing.T) {
	t.Parallel()
	if schemaVersion > migrations.Version {
		t.Errorf("schemaVersion = %d, which migrations.Version = %d does not reach", schemaVersion, migrations.Version)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	if _, err := New(nil, Config{}); err == nil {
		t.Error("no pool")
	}
	if _, err := New(new(pgxpool.Pool), Config{ClaimWait: -1}); err == nil {
		t.Error("negative wait")
	}
}

// A claim does not depend on what the session's defaults are.
func TestClaimUnderHostileDefaults(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		mustClaim(t, e.store, writer(33))
		hostile := map[string]string{
			"default_transaction_isolation": "serializable", "default_transaction_read_only": "on", "default_transaction_deferrable": "on",
			"statement_timeout": "300ms", "lock_timeout": "300ms", "standard_conforming_strings": "off", "search_path": "", "DateStyle": "SQL, DMY", "IntervalStyle": "sql_standard",
		}
		if s.Major() >= 17 {
			hostile["transaction_timeout"] = "300ms"
		}
		pool := openPool(t, e.url, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams = hostile })
		release := holdFence(t, e, writer(33))
		defer release()
		claimed := make(chan error, 1)
		go func() { claimed <- newStore(t, pool, Config{}).Claim(t.Context(), writer(34)) }()
		eventually(t, "the claim waits", func() bool {
			return query[bool](t, e.pool, `select exists (select from pg_locks l join pg_stat_activity a using (pid)
				where mode = 'ShareRowExclusiveLock' and not granted and now() - query_start > '700ms')`) // longer than all of its timeouts
		})
		release()
		if err := <-claimed; err != nil {
			t.Fatal(err)
		}
	})
}

// holdFence keeps a transaction open that has passed its check.
func holdFence(t *testing.T, e *env, token guard.Token) (release func()) {
	t.Helper()
	entry, err := e.store.Enter(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(entry.Exit)
}

// What blocks a claim is named, and found (I4).
func TestClaimBlocked(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		defer holdFence(t, e, writer(33))()
		store := newStore(t, openPool(t, e.url, inMode(pgx.QueryExecModeCacheStatement, 1)), Config{ClaimWait: 100 * time.Millisecond})
		start := time.Now()
		err := store.Claim(t.Context(), writer(34))
		var blocked *BlockedError
		if !errors.As(err, &blocked) || guard.OutcomeOf(err) != guard.NotApplied {
			t.Fatalf("%v, outcome %v", err, guard.OutcomeOf(err))
		}
		if took := time.Since(start); took < 100*time.Millisecond || took > 5*time.Second {
			t.Errorf("took %s", took)
		}
		role := e.pool.Config().ConnConfig.User
		if len(blocked.Blockers) != 1 || blocked.Blockers[0].PID == 0 || blocked.Blockers[0].User != role || blocked.Blockers[0].Since.IsZero() || blocked.Resource != "orders" {
			t.Errorf("blocked by %+v", blocked.Blockers)
		}
		if !strings.Contains(err.Error(), role) || !strings.Contains(err.Error(), "orders") || !isError(err, lockNotAvailable) {
			t.Errorf("error says %q", err)
		}
		if mark, err := e.store.Mark(t.Context(), "orders"); err != nil || mark.Writer != 33 {
			t.Errorf("mark %+v, %v", mark, err)
		}
	})
}

// A prepared transaction that passed a check cannot be evicted: it is named.
func TestClaimBlockedByPrepared(t *testing.T) {
	t.Parallel()
	s := testenv.StartPostgres(t, testenv.PostgresConfig{Settings: map[string]string{"max_prepared_transactions": "5"}})
	e := newEnv(t, s, Config{ClaimWait: 50 * time.Millisecond, Evict: true})
	mustClaim(t, e.store, writer(33))
	mustExec(t, e.pool, "begin; select fence.check('"+writer(33).String()+"'); update t set n = 5; prepare transaction 'left over'")
	err := e.store.Claim(t.Context(), writer(34))
	var blocked *BlockedError
	if !errors.As(err, &blocked) || !strings.Contains(err.Error(), "left over") {
		t.Fatal(err)
	}
	if len(blocked.Blockers) != 1 || blocked.Blockers[0].Prepared != "left over" || blocked.Blockers[0].PID != 0 || blocked.Blockers[0].Evictable {
		t.Errorf("blocked by %+v", blocked.Blockers)
	}
	mustExec(t, e.pool, "rollback prepared 'left over'")
	mustClaim(t, e.store, writer(34))
}

// An old holder updated row r and idles in its transaction, checked or not:
// the new holder claims and updates r (I4).
func TestClaimEvicts(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		for name, checked := range map[string]bool{"unchecked": false, "checked": true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, s, Config{})
				idle, done := make(chan struct{}), make(chan error, 1)
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				go func() {
					done <- e.store.InTx(ctx, writer(33), func(ctx context.Context, tx pgx.Tx) error {
						err := update(1)(ctx, tx)
						if checked {
							_, err2 := tx.Exec(ctx, "select fence.ticket($1)", writer(33).String())
							err = errors.Join(err, err2)
						}
						close(idle)
						return errors.Join(err, waitLost(ctx, tx))
					})
				}()
				<-idle
				evicter := newStore(t, e.pool, Config{ClaimWait: 50 * time.Millisecond, Evict: true})
				if err := evicter.InTx(ctx, writer(34), update(1)); err != nil {
					t.Error(err)
				}
				if err := <-done; guard.OutcomeOf(err) != guard.NotApplied {
					t.Errorf("the evicted one: %v, outcome %v", err, guard.OutcomeOf(err))
				}
				if got := n(t, e, 1); got != 1 {
					t.Errorf("n = %d, want 1", got)
				}
			})
		}
	})
}

// waitLost returns when the session of tx was ended from outside.
func waitLost(ctx context.Context, tx pgx.Tx) error {
	err := tx.Conn().PgConn().WaitForNotification(ctx)
	return errors.Join(errors.New("session lost"), err)
}

// Thirty-two first transactions of a new token share one claim and do not
// deadlock on a pool of eight.
func TestFirstUseTogether(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		for number := range int64(5) {
			var wg sync.WaitGroup
			for i := range 32 {
				wg.Go(func() {
					level := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}[i%3]
					o := TxOptions{TxOptions: pgx.TxOptions{IsoLevel: level}}
					if err := e.store.InTxOptions(t.Context(), writer(number+1), o, update(i+1)); err != nil && !isError(err, "40001") {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
	})
}

// The claim of a caller whose ctx ends does not fail the others.
func TestClaimersLeaderGivesUp(t *testing.T) {
	t.Parallel()
	var c claims
	ctx, cancel := context.WithCancel(t.Context())
	started, led := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := c.once(ctx, writer(1), func(ctx context.Context, _ guard.Token) (grant, error) {
			close(started)
			<-ctx.Done()
			return grant{}, ctx.Err()
		})
		led <- err
	}()
	<-started
	followed := make(chan error, 1)
	go func() {
		g, err := c.once(t.Context(), writer(1), func(_ context.Context, token guard.Token) (grant, error) { return grant{token: token}, nil })
		if g.token != writer(1) {
			err = errors.Join(err, errors.New("wrong grant"))
		}
		followed <- err
	}()
	gone, end := context.WithCancel(t.Context())
	end()
	if _, err := c.once(gone, writer(1), nil); !errors.Is(err, context.Canceled) || guard.OutcomeOf(err) != guard.NotApplied {
		t.Errorf("a follower whose ctx has ended: %v", err)
	}
	cancel()
	if err := <-led; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-followed; err != nil {
		t.Error(err)
	}
}

func TestClaimsAreBounded(t *testing.T) {
	t.Parallel()
	var c claims
	for i := range int64(maxClaims + 10) {
		_, err := c.once(t.Context(), writer(i+1), func(_ context.Context, token guard.Token) (grant, error) { return grant{token: token}, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(c.done) != maxClaims || len(c.running) != 0 {
		t.Errorf("%d remembered, %d under way", len(c.done), len(c.running))
	}
	if _, ok := c.find(writer(maxClaims + 10)); !ok {
		t.Error("the last one is forgotten")
	}
}

// A claim is durable although the session's commits are not.
func TestClaimIsDurable(t *testing.T) {
	t.Parallel()
	s := testenv.StartPostgres(t, testenv.PostgresConfig{Fsync: true, Settings: map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10s"}})
	e := newEnv(t, s, Config{})
	mustClaim(t, e.store, writer(33))
	mustClaim(t, e.store, writer(34))
	s.Kill(t)
	s.Restart(t)
	store := newStore(t, openPool(t, e.url, nil), Config{})
	mark, err := store.Mark(t.Context(), "orders")
	if err != nil || mark.Writer != 34 {
		t.Errorf("mark %+v, %v", mark, err)
	}
	if err := store.InTx(t.Context(), writer(33), update(1)); !errors.Is(err, guard.ErrStale) {
		t.Errorf("after the crash: %v", err)
	}
}

// I4: an old holder that begins after the claim, and pauses with a row lock,
// does not block a new holder that claims again with Evict.
func TestLateStarterIsEvicted(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		next := newStore(t, openPool(t, e.url, nil), Config{Evict: true, ClaimWait: 100 * time.Millisecond})
		mustClaim(t, e.store, writer(33))
		mustClaim(t, next, writer(34))
		locked, paused, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- e.store.InTx(context.Background(), writer(33), func(ctx context.Context, tx pgx.Tx) error {
				err := update(1)(ctx, tx)
				close(locked)
				<-paused
				return err
			})
		}()
		<-locked
		mustClaim(t, next, writer(34))
		if err := next.InTx(t.Context(), writer(34), update(1)); err != nil {
			t.Errorf("the new holder: %v", err)
		}
		close(paused)
		if err := <-ended; err == nil || guard.OutcomeOf(err) == guard.Applied {
			t.Errorf("the old holder: %v", err)
		}
	})
}
