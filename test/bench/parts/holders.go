package parts

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/results"
	"github.com/fenceproxy/fenceproxy/test/bench/scene"
	"github.com/fenceproxy/fenceproxy/test/bench/turns"
)

// benchHolders is how cost grows with the number of holders that write by one
// process: each write is one of another, by chance.
func benchHolders(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	for _, measure := range []func(b *bed.Bed, s Size) ([]results.Row, []string, error){holdersPostgres, holdersS3} {
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

func holdersPostgres(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	t := newTable(b)
	claimed := 0
	for _, n := range s.upTo(10_000) {
		for ; claimed < n; claimed++ {
			if err := t.store.Claim(b.Context(), resourceToken(claimed, 1)); err != nil {
				return nil, nil, err
			}
		}
		row := results.Row{Bench: "Postgres", N: n}
		ways := t.transactions(func() guard.Token { return resourceToken(rand.IntN(n), 1) })
		if err := turns.Take(b.Context(), s.plan(5, time.Second), &row, ways); err != nil {
			return nil, nil, err
		}
		rows = append(rows, row)
	}
	return rows, []string{t.Version, scene.Module("github.com/jackc/pgx/v5")}, nil
}

// objectWay puts one object under the token of a holder.
type objectWay struct {
	name      string
	processes map[string][]int
	put       func(ctx context.Context, holder int, key string, body *bytes.Reader) error
}

func holdersS3(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	store := scene.StartStore(b)
	bare, own := store.Direct(b), store.Direct(b)
	fenced, err := s3store.New(own.Client.Client, s3store.Config{Bucket: own.Bucket})
	b.Must(err)
	gates := []scene.Gate{store.Through(b, store.Proxy(b), resourceToken(0, 1).String())}
	ways := []objectWay{
		{"bare", store.Processes(), func(ctx context.Context, _ int, key string, body *bytes.Reader) error {
			return bare.Put(ctx, key, body, body.Size())
		}},
		{"s3store", store.Processes(), func(ctx context.Context, holder int, key string, body *bytes.Reader) error {
			_, err := fenced.Put(ctx, resourceToken(holder, 1), key, body, body.Size(), s3store.PutOptions{})
			return err
		}},
		{"fenceproxy", store.Processes(gates[0]), func(ctx context.Context, holder int, key string, body *bytes.Reader) error {
			return gates[holder].Put(ctx, key, body, body.Size())
		}},
	}
	warm := 0
	for _, n := range s.upTo(1000) {
		for len(gates) < n {
			gates = append(gates, store.As(b, gates[0], resourceToken(len(gates), 1).String()))
		}
		row := results.Row{Bench: "S3", N: n}
		all := make([]turns.Way, len(ways))
		for i, w := range ways {
			if all[i], err = w.from(b.Context(), warm, n); err != nil {
				return nil, nil, err
			}
		}
		warm = n
		if err := turns.Take(b.Context(), s.plan(5, time.Second), &row, all); err != nil {
			return nil, nil, err
		}
		rows = append(rows, row)
	}
	return rows, []string{scene.VersityVersion(b), scene.Module("github.com/minio/minio-go/v7")}, nil
}

// from is the way with n holders, who each have an object for each worker. Those
// of the holders from warm on are not there yet.
func (w objectWay) from(ctx context.Context, warm, n int) (turns.Way, error) {
	values := payloads(poolSize, smallObject)
	once := func(ctx context.Context, worker, holder int) error {
		return w.put(ctx, holder, fmt.Sprint("holder-", holder, "/", worker), fresh(values[worker]))
	}
	var each errgroup.Group
	for worker := range poolSize {
		each.Go(func() error {
			for holder := warm; holder < n; holder++ {
				if err := once(ctx, worker, holder); err != nil {
					return fmt.Errorf("holder %d by %s: %w", holder, w.name, err)
				}
			}
			return nil
		})
	}
	return turns.Way{Name: w.name, Processes: w.processes, Run: func(ctx context.Context, turn time.Duration) (turns.Done, error) {
		return turns.Load(ctx, poolSize, turn, func(ctx context.Context, worker int) error { return once(ctx, worker, rand.IntN(n)) })
	}}, each.Wait()
}
