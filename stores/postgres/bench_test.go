package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// BenchmarkInTx compares the throughput of a transaction that updates one row,
// fenced and not, and with the fences that people write by hand. Each
// round runs all of them in shuffled order, so that noise of the machine meets
// all alike; what is reported are medians over the rounds of the ratio to bare
// pgx in the same round. wal-B is the WAL a transaction adds to bare pgx's.
func BenchmarkInTx(b *testing.B) {
	for _, goroutines := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) { compare(b, goroutines) })
	}
}

type variant struct {
	name string
	run  func(ctx context.Context, id int) error
}

func compare(b *testing.B, goroutines int) {
	perGoroutine := 512 / goroutines // rounds that are short see the same noise throughout
	variants, pool := benchVariants(b, goroutines)
	ratios, wal := map[string][]float64{}, map[string]int64{}
	for _, v := range variants {
		measure(b, v, goroutines, 1+128/goroutines) // warm up connections and caches
	}
	for b.Loop() {
		took := map[string]time.Duration{}
		for _, i := range rand.Perm(len(variants)) {
			v := variants[i]
			before := walBytes(b, pool)
			took[v.name] = measure(b, v, goroutines, perGoroutine)
			wal[v.name] += walBytes(b, pool) - before
		}
		for _, v := range variants[1:] {
			ratios[v.name] = append(ratios[v.name], took["bare"].Seconds()/took[v.name].Seconds())
		}
		ratios["bare"] = append(ratios["bare"], float64(goroutines*perGoroutine)/took["bare"].Seconds())
	}
	total := float64(len(ratios["bare"]) * goroutines * perGoroutine)
	for _, v := range variants[1:] {
		b.ReportMetric(median(ratios[v.name]), v.name+"/bare")
		b.ReportMetric(float64(wal[v.name]-wal["bare"])/total, v.name+"-wal-B")
	}
	b.ReportMetric(median(ratios["bare"]), "bare-tx/s")
	b.ReportMetric(0, "ns/op")
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// measure runs v perGoroutine times in each of n goroutines, which meet on no
// row of the application's table.
func measure(b *testing.B, v variant, n, perGoroutine int) time.Duration {
	b.Helper()
	var wg sync.WaitGroup
	failed := make([]error, n)
	start := time.Now()
	for g := range n {
		wg.Go(func() {
			for range perGoroutine {
				if err := v.run(b.Context(), g+1); err != nil {
					failed[g] = err
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	if err := errors.Join(failed...); err != nil {
		b.Fatalf("%s: %v", v.name, err)
	}
	return took
}

func benchVariants(b *testing.B, goroutines int) ([]variant, *pgxpool.Pool) {
	b.Helper()
	server := testenv.StartPostgres(b, testenv.PostgresConfig{Fsync: true, Settings: map[string]string{
		"autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "4GB", "full_page_writes": "off",
	}})
	e := newEnv(b, server, Config{})
	pool := openPool(b, e.url, func(c *pgxpool.Config) { c.MaxConns = int32(goroutines) })
	mustExec(b, pool, "create table fences (resource text primary key, token bigint not null)")
	mustExec(b, pool, "insert into fences values ('orders', 34)")
	stores := map[string]*Store{"fenced": newStore(b, pool, Config{}), "lean": newStore(b, pool, Config{Lean: true})}
	mustClaim(b, stores["fenced"], writer(34))
	inTx := func(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		if err := fn(ctx, tx); err != nil {
			return errors.Join(err, tx.Rollback(ctx))
		}
		return tx.Commit(ctx)
	}
	return []variant{
		{"bare", func(ctx context.Context, id int) error { return inTx(ctx, update(id)) }},
		{"fenced", func(ctx context.Context, id int) error { return stores["fenced"].InTx(ctx, writer(34), update(id)) }},
		{"lean", func(ctx context.Context, id int) error { return stores["lean"].InTx(ctx, writer(34), update(id)) }},
		// A token in each row, which fences the row alone: a row that a newer holder
		// has only read is not fenced, nor is one that it has not come to.
		{"column", func(ctx context.Context, id int) error {
			return inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				tag, err := tx.Exec(ctx, "update t set n = n + 1, by = $2 where id = $1 and by <= $2", id, 34)
				if err != nil || tag.RowsAffected() == 0 {
					return errors.Join(errors.New("stale"), err)
				}
				return nil
			})
		}},
		{"upsert", func(ctx context.Context, id int) error {
			return inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				tag, err := tx.Exec(ctx, `insert into fences values ('orders', $1)
					on conflict (resource) do update set token = excluded.token where fences.token <= excluded.token`, 34)
				if err != nil || tag.RowsAffected() == 0 {
					return errors.Join(errors.New("stale"), err)
				}
				return update(id)(ctx, tx)
			})
		}},
		{"forupdate", func(ctx context.Context, id int) error {
			return inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				var token int64
				err := tx.QueryRow(ctx, "select token from fences where resource = 'orders' for update").Scan(&token)
				if err != nil || token > 34 {
					return errors.Join(errors.New("stale"), err)
				}
				return update(id)(ctx, tx)
			})
		}},
	}, pool
}

func walBytes(b *testing.B, pool *pgxpool.Pool) int64 {
	b.Helper()
	return query[int64](b, pool, "select (pg_current_wal_insert_lsn() - '0/0')::bigint")
}
