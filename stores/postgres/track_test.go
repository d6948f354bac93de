package pgstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TrackCommit answers only what it knows: a checkpoint in between may hide a
// crash, after which ids are handed out again.
func TestSettle(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, withoutCheckpoints(t, s), Config{})
		lost := guard.WithOutcome(errors.New("lost"), guard.Unknown)
		conn, err := pgx.Connect(t.Context(), e.url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		begin := func() xact {
			w := work{track: true}
			if _, err := simple(t.Context(), conn.PgConn(), "begin;"+trackSQL, w.learn); err != nil || w.xact.id == "" {
				t.Fatal(w.xact, err)
			}
			return w.xact
		}
		end := func(how string) {
			if _, err := conn.Exec(context.Background(), how); err != nil {
				t.Error(err)
			}
		}
		x := begin()
		var wg sync.WaitGroup
		wg.Go(func() {
			<-time.After(50 * time.Millisecond) // only now and then too early to be asked while it is in progress
			end("commit")
		})
		if err := e.store.settle(t.Context(), x, lost); err != nil {
			t.Errorf("committed while asked: %v", err)
		}
		wg.Wait()
		x = begin()
		end("rollback")
		if err := e.store.settle(t.Context(), x, lost); guard.OutcomeOf(err) != guard.NotApplied || !errors.Is(err, lost) {
			t.Errorf("rolled back: %v", err)
		}
		x = begin()
		end("commit")
		for name, change := range map[string]func(*xact){
			"checkpoint": func(x *xact) { x.checkpoint = "0/1" },
			"timeline":   func(x *xact) { x.timeline = "000000AA" },
		} {
			y := x
			change(&y)
			if err := e.store.settle(t.Context(), y, lost); guard.OutcomeOf(err) != guard.Unknown || !errors.Is(err, lost) {
				t.Errorf("another %s: %v, outcome %v", name, err, guard.OutcomeOf(err))
			}
		}
	})
}

// withoutCheckpoints is a server of the same version on which nobody makes a
// checkpoint, as a timer does, and each DROP DATABASE of another test: behind one,
// what became of a transaction is not told.
func withoutCheckpoints(t *testing.T, s *testenv.PostgresServer) *testenv.PostgresServer {
	t.Helper()
	return testenv.StartPostgres(t, testenv.PostgresConfig{Major: s.Major(), Settings: map[string]string{"checkpoint_timeout": "1d"}})
}
