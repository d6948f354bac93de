package parts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/postgres"
	"github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/results"
	"github.com/fenceproxy/fenceproxy/test/bench/scene"
	"github.com/fenceproxy/fenceproxy/test/bench/turns"
)

const mostMarks = 100_000

// benchMarks is how cost grows with the number of resources that are remembered.
func benchMarks(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	for _, measure := range []func(b *bed.Bed, s Size) ([]results.Row, []string, error){marksPostgres, marksS3} {
		err := bed.Run(b.Context(), func(b *bed.Bed) error {
			more, versions, err := measure(b, s)
			rows, of = append(rows, more...), append(of, versions...)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return rows, of, nil
}

// table is a database with rows to update by a pool of connections.
type table struct {
	*scene.Database

	pool  *pgxpool.Pool
	store *pgstore.Store
}

const poolSize = 8

func newTable(b *bed.Bed) *table {
	t := &table{Database: scene.StartDatabase(b, false)}
	config, err := pgxpool.ParseConfig(t.URL)
	b.Must(err)
	config.MaxConns = poolSize
	t.pool, err = pgxpool.NewWithConfig(b.Context(), config)
	b.Must(err)
	b.Cleanup(t.pool.Close)
	_, err = t.pool.Exec(b.Context(), "create table orders (id int primary key, n int not null default 0)")
	b.Must(err)
	_, err = t.pool.Exec(b.Context(), "insert into orders select generate_series(0, $1)", poolSize-1)
	b.Must(err)
	t.store, err = pgstore.New(t.pool, pgstore.Config{})
	b.Must(err)
	return t
}

func updateRow(id int) func(ctx context.Context, tx pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "update orders set n = n + 1 where id = $1", id)
		return err
	}
}

func (t *table) bare(ctx context.Context, worker int) error {
	return pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error { return updateRow(worker)(ctx, tx) })
}

// transactions are a bare way, and a fenced one under a token for each transaction.
func (t *table) transactions(token func() guard.Token) []turns.Way {
	return []turns.Way{
		t.way("bare", poolSize, t.bare),
		t.way("fenced", poolSize, func(ctx context.Context, worker int) error {
			return t.store.InTx(ctx, token(), updateRow(worker))
		}),
	}
}

func (t *table) way(name string, workers int, do func(ctx context.Context, worker int) error) turns.Way {
	return turns.Way{Name: name, Processes: t.Processes(), Run: func(ctx context.Context, turn time.Duration) (turns.Done, error) {
		return turns.Load(ctx, workers, turn, do)
	}}
}

func resourceToken(resource int, number int64) guard.Token {
	return guard.Token{Resource: fmt.Sprint("resource-", resource), Number: number, Mode: guard.Exclusive, Holder: "h", Issuer: "i"}
}

func marksPostgres(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	t := newTable(b)
	made := 0
	var number atomic.Int64
	number.Store(1)
	for _, n := range s.upTo(mostMarks) {
		if err := t.claimUpTo(b.Context(), made, n); err != nil {
			return nil, nil, err
		}
		made = n
		current := resourceToken(rand.IntN(n), number.Add(1))
		if err := t.store.Claim(b.Context(), current); err != nil {
			return nil, nil, err
		}
		ways := append(t.transactions(func() guard.Token { return current }),
			t.way("claim", 1, func(ctx context.Context, _ int) error {
				return t.store.Claim(ctx, resourceToken(otherThan(current, n), number.Add(1)))
			}))
		row := results.Row{Bench: "Postgres", N: n}
		if err := turns.Take(b.Context(), s.plan(5, time.Second), &row, ways); err != nil {
			return nil, nil, err
		}
		rows = append(rows, row)
	}
	return rows, []string{t.Version, scene.Module("github.com/jackc/pgx/v5")}, nil
}

// otherThan is a resource that is not the token's, below n; one of its own if
// there is none.
func otherThan(t guard.Token, n int) int {
	for range 100 {
		if i := rand.IntN(n); resourceToken(i, 1).Resource != t.Resource {
			return i
		}
	}
	return mostMarks
}

// claimUpTo makes the marks from made on. Each takes a transaction of its own.
func (t *table) claimUpTo(ctx context.Context, made, n int) error {
	var each errgroup.Group
	for worker := range poolSize {
		each.Go(func() error {
			for i := made + worker; i < n; i += poolSize {
				if _, err := t.pool.Exec(ctx, "select fence.claim($1)", resourceToken(i, 1).String()); err != nil {
					return fmt.Errorf("make %d marks: %w", n, err)
				}
				if i%10_000 == 0 && i > 0 {
					bed.Say("%s marks", results.Count(i))
				}
			}
			return nil
		})
	}
	return each.Wait()
}

const smallObject = 4 << 10

func marksS3(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	store := scene.StartStore(b)
	bare := store.Direct(b)
	values := payloads(poolSize, smallObject)
	gate := store.Direct(b)
	fenced, err := s3store.New(gate.Client.Client, s3store.Config{Bucket: gate.Bucket})
	b.Must(err)
	made := 0
	var number atomic.Int64
	number.Store(1)
	for _, n := range s.upTo(mostMarks) {
		if err := writeMarks(b.Context(), gate, made, n); err != nil {
			return nil, nil, err
		}
		made = n
		current := resourceToken(mostMarks+n, number.Add(1))
		if err := fenced.Claim(b.Context(), current); err != nil {
			return nil, nil, err
		}
		way := func(name string, workers int, do func(ctx context.Context, worker int) error) turns.Way {
			return turns.Way{Name: name, Processes: store.Processes(), Run: func(ctx context.Context, turn time.Duration) (turns.Done, error) {
				return turns.Load(ctx, workers, turn, do)
			}}
		}
		ways := []turns.Way{
			way("bare", poolSize, func(ctx context.Context, worker int) error {
				return bare.Put(ctx, fmt.Sprint("k", worker), fresh(values[worker]), smallObject)
			}),
			way("fenced", poolSize, func(ctx context.Context, worker int) error {
				_, err := fenced.Put(ctx, current, fmt.Sprint("k", n, "/", worker), fresh(values[worker]), smallObject, s3store.PutOptions{})
				return err
			}),
			way("claim", 1, func(ctx context.Context, _ int) error {
				return fenced.Claim(ctx, resourceToken(3*mostMarks, number.Add(1)))
			}),
		}
		row := results.Row{Bench: "S3", N: n}
		if err := turns.Take(b.Context(), s.plan(5, time.Second), &row, ways); err != nil {
			return nil, nil, err
		}
		rows = append(rows, row)
	}
	return rows, []string{scene.VersityVersion(b), scene.Module("github.com/minio/minio-go/v7")}, nil
}

// writeMarks puts objects where marks are, of a mark's size: a claim of each takes
// minutes for 100,000, and none of them is ever read.
func writeMarks(ctx context.Context, g scene.Gate, made, n int) error {
	var each errgroup.Group
	for worker := range poolSize {
		each.Go(func() error {
			for i := made + worker; i < n; i += poolSize {
				key := fmt.Sprintf(".fence/marks/%x", sha256.Sum256([]byte(resourceToken(i, 1).Resource)))
				if err := g.Put(ctx, key, bytes.NewReader(make([]byte, 256)), 256); err != nil {
					return fmt.Errorf("make %d marks: %w", n, err)
				}
				if i%10_000 == 0 && i > 0 {
					bed.Say("%s marks", results.Count(i))
				}
			}
			return nil
		})
	}
	return each.Wait()
}
