package pgstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// linked is a store whose connections go through a link.
func linked(t *testing.T, e *env) (*Store, *testenv.Link) {
	t.Helper()
	link := testenv.NewLink(t, e.server.Addr(), testenv.LinkConfig{Protocol: testenv.PostgresWire})
	pool := openPool(t, testenv.URLVia(e.url, link.Addr()), func(c *pgxpool.Config) { c.MaxConns = 1 })
	store := newStore(t, pool, Config{})
	// Twice: the first transaction of a connection also prepares.
	for range 2 {
		if err := store.InTx(t.Context(), writer(33), update(100)); err != nil {
			t.Fatal(err)
		}
	}
	return store, link
}

// A reply to COMMIT that is lost leaves the outcome unknown, whatever it was;
// TrackCommit finds out (I2).
func TestLostReplyToCommit(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, withoutCheckpoints(t, s), Config{})
		store, link := linked(t, e)
		for _, track := range []bool{false, true} {
			before := n(t, e, 1)
			err := store.InTxOptions(t.Context(), writer(33), TxOptions{TrackCommit: track}, func(ctx context.Context, tx pgx.Tx) error {
				err := update(1)(ctx, tx)
				link.DropReply(1)
				return err
			})
			want := guard.Unknown
			if track {
				want = guard.Applied
			}
			if guard.OutcomeOf(err) != want {
				t.Errorf("track %v: outcome %v (%v), want %v", track, guard.OutcomeOf(err), err, want)
			}
			if after := n(t, e, 1); after != before+1 {
				t.Errorf("track %v: n = %d, want %d", track, after, before+1)
			}
		}
		// A refusal that is lost is unknown too, and was none of ours.
		mustClaim(t, e.store, writer(34))
		for _, track := range []bool{false, true} {
			err := store.InTxOptions(t.Context(), writer(33), TxOptions{TrackCommit: track}, func(ctx context.Context, tx pgx.Tx) error {
				err := update(2)(ctx, tx)
				link.DropReply(1)
				return err
			})
			want := guard.Unknown
			if track {
				want = guard.NotApplied
			}
			if guard.OutcomeOf(err) != want {
				t.Errorf("stale, track %v: outcome %v (%v), want %v", track, guard.OutcomeOf(err), err, want)
			}
		}
		if got := n(t, e, 2); got != 0 {
			t.Errorf("n = %d, want 0", got)
		}
	})
}

// The reply to every other message can be lost: nothing was committed then.
func TestLostReplyBeforeCommit(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	store, link := linked(t, e)
	for drop := 1; drop <= 2; drop++ { // BEGIN, the update
		link.DropReply(drop)
		if err := store.InTx(t.Context(), writer(33), update(1)); guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("reply %d: %v, outcome %v", drop, err, guard.OutcomeOf(err))
		}
		// Back to a connection that has prepared.
		for range 2 {
			if err := store.InTx(t.Context(), writer(33), update(100)); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := store.InTx(t.Context(), writer(33), func(ctx context.Context, tx pgx.Tx) error {
		err := update(1)(ctx, tx)
		link.Cut() // before COMMIT is sent; nobody has noticed yet
		return err
	})
	if outcome := guard.OutcomeOf(err); err == nil || outcome == guard.Applied || outcome == guard.Refused {
		t.Errorf("cut: %v, outcome %v", err, outcome)
	}
	if got := n(t, e, 1); got != 0 {
		t.Errorf("n = %d, want 0", got)
	}
}

// A claim whose reply is lost can be made again, and nobody else gets in with
// its number (I8).
func TestLostReplyToClaim(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	store, link := linked(t, e)
	link.DropReply(1)
	if err := store.Claim(t.Context(), writer(34)); guard.OutcomeOf(err) != guard.Unknown {
		t.Errorf("%v, outcome %v", err, guard.OutcomeOf(err))
	}
	other := writer(34)
	other.Holder = "another"
	if err := e.store.Claim(t.Context(), other); !errors.Is(err, guard.ErrDuplicate) {
		t.Errorf("another holder of the number: %v", err)
	}
	mustClaim(t, store, writer(34))
	if err := store.InTx(t.Context(), writer(34), update(1)); err != nil {
		t.Error(err)
	}
}

func TestLostReplyToExec(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	store, link := linked(t, e)
	exec := func() error {
		_, err := store.Exec(t.Context(), writer(33), "update t set n = n + 1 where id = $1", 1)
		return err
	}
	if err := exec(); err != nil {
		t.Fatal(err)
	}
	link.DropReply(1)
	if err := exec(); guard.OutcomeOf(err) != guard.Unknown {
		t.Errorf("%v, outcome %v", err, guard.OutcomeOf(err))
	}
	if got := n(t, e, 1); got != 2 {
		t.Errorf("n = %d, want 2", got)
	}
}

// A ctx that ends inside fn rolls back; one that ends when COMMIT was sent
// leaves the outcome unknown (I2).
func TestContextEnds(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	store, link := linked(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	err := store.InTx(ctx, writer(33), func(ctx context.Context, tx pgx.Tx) error {
		err := update(1)(ctx, tx)
		cancel()
		return errors.Join(err, ctx.Err())
	})
	if !errors.Is(err, context.Canceled) || guard.OutcomeOf(err) != guard.NotApplied {
		t.Errorf("between statements: %v, outcome %v", err, guard.OutcomeOf(err))
	}
	ctx, cancel = context.WithCancel(t.Context())
	err = store.InTx(ctx, writer(33), func(ctx context.Context, tx pgx.Tx) error {
		err := update(1)(ctx, tx)
		cancel()
		return err
	})
	if !errors.Is(err, context.Canceled) || guard.OutcomeOf(err) != guard.NotApplied {
		t.Errorf("before COMMIT: %v, outcome %v", err, guard.OutcomeOf(err))
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = store.InTx(ctx, writer(33), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select pg_sleep(60)")
		return err
	})
	if !errors.Is(err, context.DeadlineExceeded) || guard.OutcomeOf(err) != guard.NotApplied {
		t.Errorf("in a statement: %v, outcome %v", err, guard.OutcomeOf(err))
	}
	if got := n(t, e, 1); got != 0 {
		t.Errorf("n = %d, want 0", got)
	}
	for range 2 {
		if err := store.InTx(t.Context(), writer(33), update(100)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel = context.WithCancel(t.Context())
	err = store.InTx(ctx, writer(33), func(ctx context.Context, tx pgx.Tx) error {
		err := update(2)(ctx, tx)
		requests := link.Requests()
		link.Delay(300 * time.Millisecond)
		go func() {
			eventually(t, "COMMIT is on its way", func() bool { return link.Requests() > requests })
			cancel()
		}()
		return err
	})
	link.Delay(0)
	if !errors.Is(err, context.Canceled) || guard.OutcomeOf(err) != guard.Unknown {
		t.Errorf("in COMMIT: %v, outcome %v", err, guard.OutcomeOf(err))
	}
}

// An error that the server gives in place of the commit is certain, whoever
// raised it; a session that was ended is not.
func TestErrorsAtCommit(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		mustExec(t, e.pool, "create table d (id int unique deferrable initially deferred)")
		twice := func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into d values (1), (1)")
			return err
		}
		err := e.store.InTx(t.Context(), writer(33), twice)
		if !isError(err, "23505") || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("deferred constraint: %v, outcome %v", err, guard.OutcomeOf(err))
		}
		_, err = e.store.Exec(t.Context(), writer(33), "insert into d values (1), (1)")
		if !isError(err, "23505") || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("deferred constraint in Exec: %v, outcome %v", err, guard.OutcomeOf(err))
		}
		err = e.store.InTxOptions(t.Context(), writer(33), TxOptions{TxOptions: pgx.TxOptions{IsoLevel: pgx.RepeatableRead}}, func(ctx context.Context, tx pgx.Tx) error {
			mustExec(t, e.pool, "update t set n = n + 1 where id = 1")
			return update(1)(ctx, tx)
		})
		if !isError(err, "40001") || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("serialization failure: %v, outcome %v", err, guard.OutcomeOf(err))
		}
		err = e.store.InTx(t.Context(), writer(33), func(ctx context.Context, tx pgx.Tx) error {
			err := update(1)(ctx, tx)
			e.asAdmin(t, "select pg_terminate_backend("+ask(t, tx.Conn(), "select pg_backend_pid()")+", 10000)")
			return err
		})
		if outcome := guard.OutcomeOf(err); outcome != guard.Unknown && outcome != guard.NotApplied {
			t.Errorf("terminated: %v, outcome %v", err, outcome)
		}
		if got := n(t, e, 1); got != 1 {
			t.Errorf("n = %d, want 1", got)
		}
	})
}

func TestUnsure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  pgconn.PgError
		want bool
	}{
		{pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "23505"}, false},
		{pgconn.PgError{SeverityUnlocalized: "ERROR", Severity: "FEHLER", Code: "40001"}, false},
		{pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "40003"}, true},
		{pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "08006"}, true},
		{pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "57P01"}, true},
		{pgconn.PgError{SeverityUnlocalized: "PANIC", Code: "XX000"}, true},
		{pgconn.PgError{Severity: "FEHLER", Code: "23505"}, true},
	} {
		if got := unsure(&c.err); got != c.want {
			t.Errorf("unsure(%+v) = %v", c.err, got)
		}
	}
}
