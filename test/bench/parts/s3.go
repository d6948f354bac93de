package parts

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/gobench"
	"github.com/fenceproxy/fenceproxy/test/bench/results"
	"github.com/fenceproxy/fenceproxy/test/bench/scene"
	"github.com/fenceproxy/fenceproxy/test/bench/turns"
)

// sizes of objects, and how many clients are busy with one each.
func (s Size) sizes() []int {
	if s.Quick {
		return []int{4 << 10, 16 << 20}
	}
	return []int{1 << 10, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20}
}

func clientsFor(size int) int { return max(1, min(16, (64<<20)/size)) }

// objects is a way to objects.
type objects struct {
	name     string
	put, get func(ctx context.Context, key string, value *bytes.Reader, size int64) error
	// parts uploads in parts; nil if put does.
	parts     func(ctx context.Context, key string, value *bytes.Reader, size int64) error
	processes map[string][]int
}

// benchS3Proxy is minio-go by way of the proxy, of others, of a relay, and of nothing.
func benchS3Proxy(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	store := scene.StartStore(b)
	of = []string{scene.VersityVersion(b), scene.NginxVersion(b), scene.Module("github.com/minio/minio-go/v7")}
	var ways []objects
	for _, w := range []struct {
		name string
		gate scene.Gate
	}{
		{"direct", store.Direct(b)},
		{"relay", store.Relay(b)},
		{"nginx", store.Nginx(b)},
		{"versitygw", store.Versity(b)},
		{"fenceproxy", store.Through(b, store.Proxy(b), ordersToken)},
	} {
		ways = append(ways, objects{
			name: w.name,
			put: func(ctx context.Context, key string, value *bytes.Reader, size int64) error {
				return w.gate.Put(ctx, key, value, size)
			},
			get: func(ctx context.Context, key string, _ *bytes.Reader, size int64) error {
				return w.gate.Get(ctx, key, size)
			},
			parts:     inParts(w.gate),
			processes: store.Processes(w.gate),
		})
	}
	if rows, err = compareObjects(b, s, ways); err != nil {
		return nil, nil, err
	}
	if !s.Quick {
		rows = append(rows, gobench.Run(b, s.Root, gobench.Bench{Package: "./cmd/fenceproxy", Pattern: "S3Uploads", Time: "1x", Rounds: 1})...)
	}
	return rows, of, nil
}

func inParts(g scene.Gate) func(ctx context.Context, key string, value *bytes.Reader, size int64) error {
	return func(ctx context.Context, key string, value *bytes.Reader, size int64) error {
		_, err := g.Client.Client.PutObject(ctx, g.Bucket, key, value, size, minio.PutObjectOptions{})
		return err
	}
}

// benchS3Store is the library beside bare minio-go; both upload in parts above 16 MiB.
func benchS3Store(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	store := scene.StartStore(b)
	bare := store.Direct(b)
	fenced, token, err := openStore(b, store)
	if err != nil {
		return nil, nil, err
	}
	rows, err = compareObjects(b, s, []objects{
		{
			name: "bare", put: inParts(bare), processes: store.Processes(),
			get: func(ctx context.Context, key string, _ *bytes.Reader, size int64) error {
				return bare.Get(ctx, key, size)
			},
		},
		{
			name: "s3store", processes: store.Processes(),
			put: func(ctx context.Context, key string, value *bytes.Reader, size int64) error {
				_, err := fenced.Put(ctx, token, key, value, size, s3store.PutOptions{})
				return err
			},
			get: func(ctx context.Context, key string, _ *bytes.Reader, size int64) error {
				body, err := fenced.Get(ctx, token, key, s3store.GetOptions{})
				return scene.Drain(body, size, err)
			},
		},
	})
	return rows, []string{scene.VersityVersion(b), scene.Module("github.com/minio/minio-go/v7")}, err
}

// openStore opens a fenced store in a bucket of its own, and claims a token there.
func openStore(b *bed.Bed, store *scene.Store) (*s3store.Store, guard.Token, error) {
	gate := store.Direct(b)
	fenced, err := s3store.New(gate.Client.Client, s3store.Config{Bucket: gate.Bucket})
	if err != nil {
		return nil, guard.Token{}, err
	}
	token, err := guard.Parse(ordersToken)
	if err != nil {
		return nil, guard.Token{}, err
	}
	return fenced, token, fenced.Claim(b.Context(), token)
}

func compareObjects(b *bed.Bed, s Size, ways []objects) (rows []results.Row, err error) {
	plan := s.plan(7, time.Second)
	for _, size := range s.sizes() {
		clients := clientsFor(size)
		values := payloads(clients, size)
		for _, work := range []string{"PUT", "GET", "PUT in parts"} {
			if work == "PUT in parts" && (ways[0].parts == nil || size < 64<<20) {
				continue
			}
			row := results.Row{Bench: "objects", Case: work, N: size}
			var all []turns.Way
			for _, w := range ways {
				do := map[string]func(ctx context.Context, key string, value *bytes.Reader, size int64) error{
					"PUT": w.put, "GET": w.get, "PUT in parts": w.parts,
				}[work]
				once := func(ctx context.Context, worker int) error {
					return do(ctx, fmt.Sprint(size, "/", worker), fresh(values[worker]), int64(size))
				}
				// Connections are open then, and the next work finds what it reads.
				if _, err := turns.Load(b.Context(), clients, 0, once); err != nil {
					return nil, fmt.Errorf("%s %d by %s: %w", work, size, w.name, err)
				}
				all = append(all, turns.Way{Name: w.name, Processes: w.processes, Run: func(ctx context.Context, turn time.Duration) (turns.Done, error) {
					return turns.Load(ctx, clients, turn, once)
				}})
			}
			if err := turns.Take(b.Context(), plan, &row, all); err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func payloads(n, size int) [][]byte {
	random := rand.NewChaCha8([32]byte{1})
	values := make([][]byte, n)
	for i := range values {
		values[i] = make([]byte, size)
		_, _ = random.Read(values[i])
	}
	return values
}

// fresh returns a payload that was not written before. On ext4 versitygw is twice
// as fast where it was, since equal extended attributes share a block.
func fresh(value []byte) *bytes.Reader {
	binary.BigEndian.PutUint64(value, rand.Uint64())
	return bytes.NewReader(value)
}
