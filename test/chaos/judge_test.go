package chaos_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// judge counts the rows that were committed after a claim of a higher number had
// returned (I1), by the clock of this machine, and all rows. It also says what is
// not as the writers were told (I2).
func (b *siege) judge(t *testing.T) (stale, rows int) {
	t.Helper()
	// soonest is when a claim of a number above had returned.
	soonest := make([]time.Time, b.number+2)
	for n := b.number; n >= 0; n-- {
		soonest[n] = soonest[n+1]
		if at, ok := b.claims[n+1]; ok && (soonest[n].IsZero() || at.Before(soonest[n])) {
			soonest[n] = at
		}
	}
	conn, err := pgx.Connect(t.Context(), b.admin)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	result, err := conn.Query(t.Context(), "select number, id, pg_xact_commit_timestamp(xmin) from written")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int64]bool{}
	var (
		number, id int64
		at         time.Time
	)
	_, err = pgx.ForEachRow(result, []any{&number, &id, &at}, func() error {
		rows++
		found[id] = true
		if limit := soonest[number]; !limit.IsZero() && at.After(limit) {
			stale++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, what := range b.fates {
		if what.fate == acknowledged && !found[id] {
			b.fail("write %d by %s was acknowledged and is not there (I2)", id, what.way)
		}
		if what.fate == notApplied && found[id] {
			b.fail("write %d by %s was not applied, they said, and is there (I2): %v", id, what.way, what.err)
		}
	}
	return stale, rows
}
