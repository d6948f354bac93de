package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// S3URLEnv names a running S3 server to use: http://key:secret@host:port, where
// ?region= defaults to us-east-1. Its users may make and remove buckets.
const S3URLEnv = "FENCE_TEST_S3_URL"

// S3Server is a running S3 server without TLS, addressed path-style.
type S3Server struct {
	// AccessKey and SecretKey are those of a user who may do everything.
	AccessKey, SecretKey string
	// Region is the only one that the server's signatures may name.
	Region string

	// name is the program's, for messages and subtests.
	name    string
	addr    string
	dir     string
	program *command
	ready   func(context.Context) error
	proc    *process // nil if the server is not ours
}

// S3 returns the versitygw that the tests of this process share. Keep to a
// bucket of your own.
func S3(tb testing.TB) *S3Server {
	tb.Helper()
	s, err := share("s3", func() (*S3Server, func(), error) {
		if address := os.Getenv(S3URLEnv); address != "" {
			s, err := s3At(address)
			return s, func() {}, err
		}
		return launchVersityGW()
	})
	need(tb, err)
	return s
}

// EachS3 runs f on versitygw and, where its program weed is in PATH, on
// SeaweedFS, as subtests.
func EachS3(t *testing.T, f func(t *testing.T, s *S3Server)) {
	t.Helper()
	first := S3(t)
	t.Run(first.name, func(t *testing.T) { f(t, first) })
	second, err := share("seaweedfs", launchSeaweedFS)
	if errors.Is(err, errMissing) {
		return // nobody is asked to have it: `make servers` does not build it
	}
	need(t, err)
	t.Run(second.name, func(t *testing.T) { f(t, second) })
}

// StartS3 starts a versitygw for this test alone, removed when the test ends.
// It may be killed.
func StartS3(tb testing.TB) *S3Server {
	tb.Helper()
	s, stop, err := launchVersityGW()
	need(tb, err)
	tb.Cleanup(stop)
	return s
}

// Name is the program's: versitygw, seaweedfs, or s3 for one of the environment.
func (s *S3Server) Name() string { return s.name }

// Endpoint is the server's host:port, as minio-go takes it.
func (s *S3Server) Endpoint() string { return s.addr }

// Link opens a link to the server that counts requests and loses or delays
// them. It ends with the test.
func (s *S3Server) Link(tb testing.TB) *S3Link { tb.Helper(); return NewS3Link(tb, s.addr) }

// Client returns a client of the server that tries nothing twice.
func (s *S3Server) Client(tb testing.TB) *minio.Client { tb.Helper(); return s.ClientAt(tb, s.addr) }

// ClientAt is Client by way of another address, such as a link's. Its
// connections are closed when the test ends.
func (s *S3Server) ClientAt(tb testing.TB, endpoint string) *minio.Client {
	tb.Helper()
	client, stop, err := s.client(endpoint)
	if err != nil {
		tb.Fatalf("testenv: client of %s: %v", s.name, err)
	}
	tb.Cleanup(stop)
	return client
}

func (s *S3Server) client(endpoint string) (*minio.Client, func(), error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	client, err := minio.New(endpoint, &minio.Options{
		Creds:        credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""),
		Region:       s.Region,
		BucketLookup: minio.BucketLookupPath,
		Transport:    transport,
		MaxRetries:   1,
	})
	return client, transport.CloseIdleConnections, err
}

// Bucket makes a bucket, removed with all that is in it when the test ends.
func (s *S3Server) Bucket(tb testing.TB) string {
	tb.Helper()
	client, stop, err := s.client(s.addr)
	if err != nil {
		tb.Fatalf("testenv: client of %s: %v", s.name, err)
	}
	name := strings.ReplaceAll(freshName("s3"), "_", "-")
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	if err := client.MakeBucket(ctx, name, minio.MakeBucketOptions{Region: s.Region}); err != nil {
		stop()
		tb.Fatalf("testenv: make bucket of %s: %v", s.name, err)
	}
	tb.Cleanup(func() {
		defer stop()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := removeBucket(ctx, client, name); err != nil && s.runs() {
			tb.Errorf("testenv: remove bucket of %s: %v", s.name, err)
		}
	})
	return name
}

// removeBucket removes versions and unfinished uploads too.
func removeBucket(ctx context.Context, client *minio.Client, bucket string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the listing if the removal ends first
	for upload := range client.ListIncompleteUploads(ctx, bucket, "", true) {
		if upload.Err != nil {
			return fmt.Errorf("list uploads: %w", upload.Err)
		}
		core := minio.Core{Client: client}
		if err := core.AbortMultipartUpload(ctx, bucket, upload.Key, upload.UploadID); err != nil {
			return fmt.Errorf("abort upload of %q: %w", upload.Key, err)
		}
	}
	for object := range client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
		if object.Err != nil {
			return fmt.Errorf("list objects: %w", object.Err)
		}
		err := client.RemoveObject(ctx, bucket, object.Key, minio.RemoveObjectOptions{VersionID: object.VersionID})
		if err != nil {
			return fmt.Errorf("remove %q: %w", object.Key, err)
		}
	}
	return client.RemoveBucket(ctx, bucket)
}

// Kill ends the server as a crash does.
func (s *S3Server) Kill(tb testing.TB) { tb.Helper(); s.own(tb); s.proc.end(syscall.SIGKILL) }

// Freeze stops the server where it is; its connections stay open.
func (s *S3Server) Freeze(tb testing.TB) { tb.Helper(); s.own(tb); s.must(tb, s.proc.Freeze()) }

// Thaw lets a frozen server run on.
func (s *S3Server) Thaw(tb testing.TB) { tb.Helper(); s.own(tb); s.must(tb, s.proc.Thaw()) }

// Restart kills the server if it runs, and starts it again on its data and its
// port.
func (s *S3Server) Restart(tb testing.TB) {
	tb.Helper()
	s.own(tb)
	s.proc.end(syscall.SIGKILL)
	s.must(tb, s.start())
}

func (s *S3Server) own(tb testing.TB) {
	tb.Helper()
	if s.proc == nil {
		tb.Fatalf("testenv: the server at %s is not ours to stop", s.addr)
	}
}

func (s *S3Server) must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("testenv: %s: %v", s.name, err)
	}
}

// runs says whether the server can be asked: a test may leave it killed.
func (s *S3Server) runs() bool {
	if s.proc == nil {
		return true
	}
	select {
	case <-s.proc.Done():
		return false
	default:
		return true
	}
}

func (s *S3Server) start() error {
	if s.proc != nil && s.proc.box != nil {
		return s.proc.box.Restart(context.Background())
	}
	proc, err := s.program.start()
	if err != nil {
		return err
	}
	s.proc = proc
	if err := proc.AwaitReady(context.Background(), time.Minute, s.ready); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	return nil
}

// s3At is a server of the environment.
func s3At(address string) (*S3Server, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("read %s: it is no URL", S3URLEnv) // the error would show the secret
	}
	secret, ok := u.User.Password()
	if !ok || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("read %s: want http://key:secret@host:port", S3URLEnv)
	}
	s := &S3Server{name: "s3", addr: u.Host, AccessKey: u.User.Username(), SecretKey: secret, Region: u.Query().Get("region")}
	if s.Region == "" {
		s.Region = defaultS3Region
	}
	return s, nil
}

const defaultS3Region = "us-east-1"

// answersHTTP says whether something at addr answers HTTP at all: a server that
// asks for a signature answers 403.
func answersHTTP(ctx context.Context, addr string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", http.NoBody)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// NewS3Link opens a link to an S3 server, host:port. It ends with the test.
func NewS3Link(tb testing.TB, target string) *S3Link { tb.Helper(); return s3link.New(tb, target) }

// S3Link is a link that understands S3's requests; see package s3link.
type S3Link = s3link.Link

// logIn is the log of a server whose data is in dir.
func logIn(dir string) string { return filepath.Join(dir, "log") }
