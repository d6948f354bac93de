package pgproxy

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TestClaimIsReplicated: no session begins under a claim that the synchronous standby
// has nothing of, neither the one that made it and was cancelled while it waited for
// that, nor another one of the same token; and whoever waits goes on when the standby
// has it (I1, I6).
func TestClaimIsReplicated(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t) // pg_basebackup is not there for every version
	pair := testenv.StartPostgresPair(t, testenv.PostgresConfig{Major: s.Major()}, 0)
	sc := newScene(t, pair.Primary(), Config{})
	other, _ := serveProxy(t, Config{Upstream: Upstream{Address: pair.Primary().Addr()}})
	watch := sc.connect(sc.url)
	waiting := func(n int) {
		t.Helper()
		eventually(t, "commits wait for the standby", func() bool {
			var got int
			err := watch.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Scan(&got)
			return err == nil && got == n
		})
	}
	pair.Attach(t)
	first := sc.connect(sc.via(""))
	sc.exec(first, "SET fence.token = '"+sc.token(7).String()+"'")
	pair.FreezeStandby(t)
	for range 2 { // it claims; then it finds that claimed
		var wg sync.WaitGroup
		wg.Go(func() {
			waiting(1)
			sc.exec(watch, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		})
		_, err := first.Exec(t.Context(), "SELECT 1")
		wg.Wait()
		sc.wants(err, "57014")
		waiting(0)
	}
	var claimed bool
	if err := watch.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM fence.marks WHERE writer = 7)").Scan(&claimed); err != nil || !claimed {
		t.Fatal("it is not claimed at all", err)
	}
	begun := make(chan error, 3)
	via := *sc
	via.addr = other
	for _, dsn := range []string{sc.via(sc.token(7).String()), via.via(sc.token(7).String())} {
		go func() {
			conn, err := pgx.Connect(t.Context(), dsn)
			if err == nil {
				_, err = conn.Exec(t.Context(), "SELECT 1")
				conn.Close(context.Background())
			}
			begun <- err
		}()
	}
	go func() {
		_, err := first.Exec(t.Context(), "SELECT 1")
		begun <- err
	}()
	waiting(3)
	select {
	case err := <-begun:
		t.Fatalf("a session has begun before the standby had the claim: %v", err)
	default:
	}
	pair.ThawStandby(t)
	for range 3 {
		if err := <-begun; err != nil {
			t.Error(err)
		}
	}
}
