package chaos_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

// durationEnv makes a test run longer than its few seconds, like "10m".
const durationEnv = "FENCE_CHAOS"

func duration(t *testing.T) time.Duration {
	t.Helper()
	return durationOr(t, 3*time.Second)
}

// durationOr is what durationEnv says, if it is set.
func durationOr(t *testing.T, standard time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(durationEnv)
	if text == "" {
		return standard
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", durationEnv, err)
	}
	return d
}

// newBattle makes a database with the schema and a table to write to, and a
// role that may be evicted.
func newBattle(t *testing.T, s *testenv.PostgresServer, checks []proof) *battle {
	t.Helper()
	url := s.Database(t)
	role, password := s.Role(t, "LOGIN")
	if err := migrations.Up(t.Context(), url, migrations.Config{Grant: []string{role}}); err != nil {
		t.Fatal(err)
	}
	admin, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	_, err = admin.Exec(t.Context(), fmt.Sprintf(`
		create table written (number bigint, at timestamptz default clock_timestamp());
		create table guarded (number bigint, at timestamptz default clock_timestamp());
		create table still (n int);
		grant all on written, guarded, still to %s; select fence.protect('guarded', '%s')`, role, resource))
	if err != nil {
		t.Fatal(err)
	}
	return &battle{url: testenv.URLAs(url, role, password), checks: checks, outcomes: map[string]int{}}
}

// I1 and I3 under fire: 8 writers at mixed isolation levels, tokens superseded
// every 40 ms, claims that are rolled back and claims that evict. After a claim
// has returned not one older row becomes visible, and nobody is refused whose
// token was the newest.
func TestPostgresStress(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		b := newBattle(t, s, []proof{byTicket, byToken, bySetting, byTrigger})
		b.fight(t, duration(t))
		// On a slow machine it takes longer until there is something to see.
		for deadline := time.Now().Add(time.Minute); !b.enough() && time.Now().Before(deadline); {
			b.fight(t, time.Second)
		}
		t.Log(b.summary())
		if stale := b.staleRows(t); stale != 0 {
			t.Errorf("%d rows were written under a stale token (I1)", stale)
		}
		for _, wrong := range b.wrong {
			t.Error(wrong)
		}
		if !b.enough() {
			t.Error("too little happened to tell anything")
		}
	})
}

// The same with a check that reads the mark and takes no lock: it must show
// stale rows, or else the test above could not have seen any.
func TestPostgresStressCanFail(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		b := newBattle(t, s, []proof{byLooking})
		for deadline := time.Now().Add(time.Minute); ; {
			b.fight(t, time.Second)
			if stale := b.staleRows(t); stale > 0 {
				t.Logf("%d stale rows with a check that takes no lock; %s", stale, b.summary())
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("no stale row within a minute, though nothing was locked; %s", b.summary())
			}
		}
	})
}
