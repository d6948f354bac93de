package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

var (
	s3Rounds = flag.Int("s3-rounds", 7, "rounds of BenchmarkS3Proxy")
	s3Cells  = flag.String("s3-cells", ".", "regular expression of the rows of BenchmarkS3Proxy, such as PUT.4")
)

// s3Way is one way from a client to the server, with the bucket that it has to
// itself.
type s3Way struct {
	name, bucket string
	client       minio.Core
}

// s3Work is what a client does over and over.
type s3Work struct {
	name              string
	size              int
	goroutines, times int
	do                func(ctx context.Context, w *s3Way, key string, body io.Reader, size int64) error
}

var s3Works = []s3Work{
	{"PUT 4 KiB", 4 << 10, 16, 24, putOnce},
	{"GET 4 KiB", 4 << 10, 16, 96, get},
	{"PUT 256 MiB", 256 << 20, 1, 1, putOnce},
	{"PUT 256 MiB in parts", 256 << 20, 1, 1, func(ctx context.Context, w *s3Way, key string, body io.Reader, size int64) error {
		_, err := w.client.Client.PutObject(ctx, w.bucket, key, body, size, minio.PutObjectOptions{})
		return err
	}},
	{"GET 256 MiB", 256 << 20, 1, 1, get},
}

func putOnce(ctx context.Context, w *s3Way, key string, body io.Reader, size int64) error {
	_, err := w.client.PutObject(ctx, w.bucket, key, body, size, "", "", minio.PutObjectOptions{DisableMultipart: true})
	return err
}

func get(ctx context.Context, w *s3Way, key string, _ io.Reader, size int64) error {
	body, _, _, err := w.client.GetObject(ctx, w.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer body.Close()
	if n, err := io.Copy(io.Discard, body); err != nil || n != size {
		return fmt.Errorf("%d bytes: %w", n, err)
	}
	return nil
}

// BenchmarkS3Proxy compares, in turn and on one server: the server itself, nginx
// that looks at nothing, versitygw as a proxy, which verifies and signs as ours
// does, and fenceproxy with the fence on, each proxy a process of its own. It
// prints a table of medians over the rounds; ratios are of one round. Every
// write has bytes of its own.
func BenchmarkS3Proxy(b *testing.B) {
	server := testenv.StartS3(b)
	ways := []*s3Way{
		newS3Way(b, server, "direct", server.Endpoint(), server.AccessKey, server.SecretKey, ""),
		newS3Way(b, server, "nginx", testenv.Nginx(b, server), server.AccessKey, server.SecretKey, ""),
		newS3Way(b, server, "versitygw", testenv.VersityProxy(b, server), server.AccessKey, server.SecretKey, ""),
		newS3Way(b, server, "fenceproxy", serveS3(b, server).addr, s3BenchKey, s3BenchSecret, "ft1:x:33:h:i:orders"),
	}
	fmt.Printf("\n%d rounds; throughput as a ratio in the same round: median [min-max]\n\n", *s3Rounds)
	fmt.Println("| work | clients | fenceproxy / nginx | fenceproxy / direct | fenceproxy / versitygw | nginx / direct | direct, requests/s | direct, MiB/s |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for b.Loop() {
		for _, work := range s3Works {
			if regexp.MustCompile(*s3Cells).MatchString(work.name) {
				work.compare(b, ways)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

func newS3Way(b *testing.B, server *testenv.S3Server, name, addr, key, secret, token string) *s3Way {
	b.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}
	b.Cleanup(transport.CloseIdleConnections)
	core, err := minio.NewCore(addr, &minio.Options{
		Creds: credentials.NewStaticV4(key, secret, token), Region: server.Region, BucketLookup: minio.BucketLookupPath,
		Transport: transport, MaxRetries: 1,
	})
	if err != nil {
		b.Fatal(err)
	}
	return &s3Way{name: name, bucket: server.Bucket(b), client: *core}
}

func (work *s3Work) compare(b *testing.B, ways []*s3Way) {
	b.Helper()
	value := make([]byte, work.size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(value)
	for _, w := range ways { // what is read must be there, and connections open
		work.prepare(b, w, value)
	}
	speeds := make([][]float64, len(ways))
	for range *s3Rounds {
		for _, i := range rand.Perm(len(ways)) {
			took := work.measure(b, ways[i], value, work.times)
			speeds[i] = append(speeds[i], float64(work.goroutines*work.times)/took.Seconds())
		}
	}
	const direct, nginx, versity, ours = 0, 1, 2, 3
	fmt.Printf("| %s | %d | %s | %s | %s | %s | %.0f | %.0f |\n", work.name, work.goroutines,
		ratio(speeds[ours], speeds[nginx]), ratio(speeds[ours], speeds[direct]), ratio(speeds[ours], speeds[versity]),
		ratio(speeds[nginx], speeds[direct]), middle(speeds[direct]), middle(speeds[direct])*float64(work.size)/(1<<20))
}

func (work *s3Work) prepare(b *testing.B, w *s3Way, value []byte) {
	b.Helper()
	for g := range work.goroutines {
		if err := putOnce(b.Context(), w, work.key(g), freshBytes(value), int64(len(value))); err != nil {
			b.Fatalf("%s by %s: %v", work.name, w.name, err)
		}
	}
	work.measure(b, w, value, max(work.times/8, 1))
}

func (work *s3Work) key(g int) string { return fmt.Sprint(work.size, "/", g) }

func (work *s3Work) measure(b *testing.B, w *s3Way, value []byte, times int) time.Duration {
	b.Helper()
	var all sync.WaitGroup
	failed := make([]error, work.goroutines)
	bodies := make([]*bytes.Reader, work.goroutines)
	for g := range bodies {
		bodies[g] = freshBytes(value)
	}
	start := time.Now()
	for g := range work.goroutines {
		all.Go(func() {
			for range times {
				if failed[g] = work.do(b.Context(), w, work.key(g), bodies[g], int64(work.size)); failed[g] != nil {
					return
				}
				if len(value) < 1<<20 {
					bodies[g] = freshBytes(value)
				}
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	if err := errors.Join(failed...); err != nil {
		b.Fatalf("%s by %s: %v", work.name, w.name, err)
	}
	return took
}

func freshBytes(value []byte) *bytes.Reader {
	value = bytes.Clone(value)
	binary.BigEndian.PutUint64(value, rand.Uint64())
	return bytes.NewReader(value)
}

func ratio(of, to []float64) string {
	ratios := make([]float64, len(of))
	for i := range of {
		ratios[i] = of[i] / to[i]
	}
	slices.Sort(ratios)
	return fmt.Sprintf("%.2f [%.2f-%.2f]", ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
}

func middle(values []float64) float64 {
	values = slices.Clone(values)
	slices.Sort(values)
	return values[len(values)/2]
}

// BenchmarkS3Uploads is what the process of serve takes while 64 clients upload
// 256 MiB each at once: the peak of its resident memory, in MiB.
func BenchmarkS3Uploads(b *testing.B) {
	const uploads, size = 64, 256 << 20
	server := testenv.StartS3(b)
	for b.Loop() {
		proxy := serveS3(b, server)
		way := newS3Way(b, server, "fenceproxy", proxy.addr, s3BenchKey, s3BenchSecret, "ft1:x:33:h:i:orders")
		before := clitest.Resident(b, proxy.pid)
		var all sync.WaitGroup
		failed := make([]error, uploads)
		gate := newGate(uploads)
		for i := range uploads {
			all.Go(func() {
				failed[i] = putOnce(b.Context(), way, fmt.Sprint("upload", i), &blank{left: size, gate: gate}, size)
			})
		}
		all.Wait()
		if err := errors.Join(failed...); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(clitest.Peak(b, proxy.pid), "MiB-peak")
		b.ReportMetric(before, "MiB-before")
	}
	b.ReportMetric(0, "ns/op")
}

// gate opens when all have come: then all uploads are under way at once.
type gate struct{ all sync.WaitGroup }

func newGate(n int) *gate {
	g := &gate{}
	g.all.Add(n)
	return g
}

func (g *gate) pass() { g.all.Done(); g.all.Wait() }

// blank is a body that takes no memory. In its middle it waits for the others.
type blank struct {
	left   int64
	gate   *gate
	passed bool
}

func (z *blank) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	if z.left < 128<<20 && !z.passed {
		z.passed = true
		z.gate.pass()
	}
	n := min(int64(len(p)), z.left)
	clear(p[:n])
	z.left -= n
	return int(n), nil
}

const s3BenchKey, s3BenchSecret = "bench-client", "bench-client-secret"

type s3Process struct {
	addr string
	pid  int
}

// serveS3 starts serve in front of the server; it ends with the test.
func serveS3(b *testing.B, server *testenv.S3Server) s3Process {
	b.Helper()
	config := filepath.Join(b.TempDir(), "fenceproxy.yaml")
	err := os.WriteFile(config, fmt.Appendf(nil, `s3:
  - listen: 127.0.0.1:0
    upstream:
      endpoint: http://%s
      region: %s
      access_key: %s
      secret_key: %s
    clients:
      - access_key: %s
        secret_key: %s
        buckets: ["*"]
`, server.Endpoint(), server.Region, server.AccessKey, server.SecretKey, s3BenchKey, s3BenchSecret), 0o600)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(clitest.Built(b), "serve", "--config", config)
	s := s3Process{addr: listening(b, cmd), pid: cmd.Process.Pid}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return s
}
