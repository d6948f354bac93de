package scene

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/test/bench/bed"
)

const clientKey, clientSecret = "bench-client", "bench-client-secret"

// Store is an S3 server.
type Store struct {
	*testenv.S3Server

	PID     int
	buckets atomic.Int64
}

// StartStore starts a versitygw.
func StartStore(b *bed.Bed) *Store {
	server := testenv.StartS3(b)
	return &Store{S3Server: server, PID: pidAt(b, server.Endpoint())}
}

// VersityVersion is that of the versitygw which `make servers` builds.
func VersityVersion(b *bed.Bed) string {
	info, err := buildinfo.ReadFile(testenv.Program(b, "./versitygw"))
	b.Must(err)
	for _, dep := range append(info.Deps, &info.Main) {
		if strings.HasSuffix(dep.Path, "/versitygw") {
			return "versitygw " + dep.Version
		}
	}
	return "versitygw"
}

// Gate is a way to a store, with a bucket that it has to itself.
type Gate struct {
	Bucket string
	Client *minio.Core
	PID    int // of the process in between, 0 if there is none

	transport http.RoundTripper
}

// Direct is the way without anything in between.
func (s *Store) Direct(b *bed.Bed) Gate {
	return s.gate(b, s.Endpoint(), s.AccessKey, s.SecretKey, "", 0)
}

// Nginx passes everything on, and looks at nothing.
func (s *Store) Nginx(b *bed.Bed) Gate {
	addr := testenv.Nginx(b, s.S3Server)
	return s.gate(b, addr, s.AccessKey, s.SecretKey, "", pidAt(b, addr))
}

// Versity is a versitygw that verifies and signs anew, as fenceproxy does.
func (s *Store) Versity(b *bed.Bed) Gate {
	addr := testenv.VersityProxy(b, s.S3Server)
	return s.gate(b, addr, s.AccessKey, s.SecretKey, "", pidAt(b, addr))
}

// Proxy starts a fenceproxy.
func (s *Store) Proxy(b *bed.Bed) Proxy {
	return Serve(b, fmt.Sprintf(`s3:
  - listen: 127.0.0.1:0
    upstream: {endpoint: "http://%s", region: %s, access_key: %s, secret_key: %s}
    clients: [{access_key: %s, secret_key: %s, buckets: ["*"]}]
`, s.Endpoint(), s.Region, s.AccessKey, s.SecretKey, clientKey, clientSecret), 1)
}

// Through is the way through a fenceproxy, under a token.
func (s *Store) Through(b *bed.Bed, p Proxy, token string) Gate {
	return s.gate(b, p.Addrs[0], clientKey, clientSecret, token, p.PID)
}

// As is the same way and the same connections through a fenceproxy, under another
// token.
func (s *Store) As(b *bed.Bed, g Gate, token string) Gate {
	g.Client = s.client(b, g.Client.EndpointURL().Host, clientKey, clientSecret, token, g.transport)
	return g
}

func (s *Store) gate(b *bed.Bed, addr, key, secret, token string, pid int) Gate {
	transport := &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}
	b.Cleanup(transport.CloseIdleConnections)
	return Gate{s.newBucket(b), s.client(b, addr, key, secret, token, transport), pid, transport}
}

// newBucket makes a bucket that goes with the server: to empty one of 100,000
// objects takes minutes.
func (s *Store) newBucket(b *bed.Bed) string {
	name := fmt.Sprint("bench-", s.buckets.Add(1))
	b.Must(s.client(b, s.Endpoint(), s.AccessKey, s.SecretKey, "", nil).MakeBucket(b.Context(), name, minio.MakeBucketOptions{}))
	return name
}

func (s *Store) client(b *bed.Bed, addr, key, secret, token string, transport http.RoundTripper) *minio.Core {
	core, err := minio.NewCore(addr, &minio.Options{
		Creds: credentials.NewStaticV4(key, secret, token), Region: s.Region, BucketLookup: minio.BucketLookupPath,
		Transport: transport, MaxRetries: 1,
	})
	b.Must(err)
	return core
}

// Processes are whose CPU time counts on the way through gates.
func (s *Store) Processes(gates ...Gate) map[string][]int {
	all := map[string][]int{"server": {s.PID}}
	for _, g := range gates {
		if g.PID != 0 {
			all["proxy"] = append(all["proxy"], g.PID)
		}
	}
	return all
}

// Put writes an object with one request.
func (g Gate) Put(ctx context.Context, key string, body io.Reader, size int64) error {
	_, err := g.Client.PutObject(ctx, g.Bucket, key, body, size, "", "", minio.PutObjectOptions{DisableMultipart: true})
	return err
}

// Get reads one.
func (g Gate) Get(ctx context.Context, key string, size int64) error {
	body, _, _, err := g.Client.GetObject(ctx, g.Bucket, key, minio.GetObjectOptions{})
	return Drain(body, size, err)
}

// Drain reads a body to its end.
func Drain(body io.ReadCloser, size int64, err error) error {
	if err != nil {
		return err
	}
	defer body.Close()
	if n, err := io.Copy(io.Discard, body); err != nil || n != size {
		return fmt.Errorf("%d of %d bytes: %w", n, size, err)
	}
	return nil
}
