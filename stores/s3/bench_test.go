package s3store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// BenchmarkPut compares the throughput of warm writes, each goroutine to a key
// of its own, with bare minio-go's on the same server: the same keys in another
// bucket, for a server may have locks by key. Every write has bytes of its own, as
// writes have: on ext4 versitygw is twice as fast where they stay the same, since
// equal extended attributes share a block. Each round runs both in shuffled
// order, so that noise of the machine meets both alike; what is reported is the
// median over the rounds of the ratio in the same round.
func BenchmarkPut(b *testing.B) {
	for _, goroutines := range []int{1, 16} {
		b.Run(fmt.Sprintf("4KiB/goroutines=%d", goroutines), func(b *testing.B) {
			e, value := newEnv(b, testenv.S3(b), Config{}), randomBytes(4<<10)
			direct, bucket := e.direct(b), e.server.Bucket(b)
			compare(b, goroutines, 256/goroutines, 4<<10, map[string]func(context.Context, int) error{
				"bare": func(ctx context.Context, g int) error {
					_, err := e.bare.PutObject(ctx, bucket, fmt.Sprint("k", g), fresh(value), int64(len(value)), minio.PutObjectOptions{})
					return err
				},
				"fenced": func(ctx context.Context, g int) error {
					_, err := direct.Put(ctx, writer(33), fmt.Sprint("k", g), fresh(value), int64(len(value)), PutOptions{})
					return err
				},
			})
		})
	}
	b.Run("256MiB", func(b *testing.B) {
		e, value := newEnv(b, testenv.S3(b), Config{}), randomBytes(256<<20)
		direct, bucket := e.direct(b), e.server.Bucket(b)
		compare(b, 1, 1, len(value), map[string]func(context.Context, int) error{
			"bare": func(ctx context.Context, _ int) error {
				_, err := e.bare.PutObject(ctx, bucket, "k", bytes.NewReader(value), int64(len(value)), minio.PutObjectOptions{})
				return err
			},
			"fenced": func(ctx context.Context, _ int) error {
				_, err := direct.Put(ctx, writer(33), "k", bytes.NewReader(value), int64(len(value)), PutOptions{})
				return err
			},
		})
	})
}

// fresh returns a payload like value that was not written before.
func fresh(value []byte) *bytes.Reader {
	value = bytes.Clone(value)
	binary.BigEndian.PutUint64(value, rand.Uint64())
	return bytes.NewReader(value)
}

// BenchmarkGet does the same for reads.
func BenchmarkGet(b *testing.B) {
	for _, bench := range []struct {
		name              string
		size              int
		goroutines, times int
	}{{"4KiB/goroutines=16", 4 << 10, 16, 64}, {"256MiB", 256 << 20, 1, 1}} {
		b.Run(bench.name, func(b *testing.B) {
			e, value := newEnv(b, testenv.S3(b), Config{}), randomBytes(bench.size)
			direct := e.direct(b)
			e.putBare(b, "bare", string(value))
			mustPut(b, direct, writer(33), "fenced", string(value))
			core := minio.Core{Client: e.bare}
			drain := func(r io.ReadCloser, err error) error {
				if err != nil {
					return err
				}
				defer r.Close()
				if n, err := io.Copy(io.Discard, r); err != nil || n != int64(bench.size) {
					return fmt.Errorf("%d bytes: %w", n, err)
				}
				return nil
			}
			compare(b, bench.goroutines, bench.times, bench.size, map[string]func(context.Context, int) error{
				"bare": func(ctx context.Context, _ int) error {
					r, _, _, err := core.GetObject(ctx, e.bucket, "bare", minio.GetObjectOptions{})
					return drain(r, err)
				},
				"fenced": func(ctx context.Context, _ int) error {
					r, err := direct.Get(ctx, writer(33), "fenced", GetOptions{})
					return drain(r, err)
				},
			})
		})
	}
}

// direct returns a store without a link in between, that has claimed.
func (e *env) direct(tb testing.TB) *Store {
	tb.Helper()
	s, err := New(e.server.Client(tb), Config{Bucket: e.bucket})
	if err != nil {
		tb.Fatal(err)
	}
	mustClaim(tb, s, writer(33))
	return s
}

func compare(b *testing.B, goroutines, times, size int, variants map[string]func(context.Context, int) error) {
	b.Helper()
	names := []string{"bare", "fenced"}
	for _, name := range names {
		measure(b, name, variants[name], goroutines, max(times/8, 1)) // warm up
	}
	var ratios, speeds []float64
	for b.Loop() {
		took := map[string]float64{}
		for _, i := range rand.Perm(len(names)) {
			took[names[i]] = measure(b, names[i], variants[names[i]], goroutines, times).Seconds()
		}
		ratios = append(ratios, took["bare"]/took["fenced"])
		speeds = append(speeds, float64(goroutines*times)/took["bare"])
	}
	b.ReportMetric(median(ratios), "fenced/bare")
	b.ReportMetric(median(speeds), "bare-requests/s")
	b.ReportMetric(median(speeds)*float64(size)/(1<<20), "bare-MiB/s")
	b.ReportMetric(0, "ns/op")
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func measure(b *testing.B, name string, run func(context.Context, int) error, goroutines, times int) time.Duration {
	b.Helper()
	var all sync.WaitGroup
	failed := make([]error, goroutines)
	start := time.Now()
	for g := range goroutines {
		all.Go(func() {
			for range times {
				if err := run(b.Context(), g); err != nil {
					failed[g] = err
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	if err := errors.Join(failed...); err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return took
}
