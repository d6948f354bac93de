package s3store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

func writer(number int64) guard.Token {
	return guard.Token{Resource: "orders", Number: number, Mode: guard.Exclusive, Holder: "h", Issuer: "i"}
}

func reader(number int64) guard.Token {
	t := writer(number)
	t.Mode = guard.Shared
	return t
}

// env is a bucket, and a store on it.
type env struct {
	server *testenv.S3Server
	bucket string
	bare   *minio.Client // past the fence, and past the link
	link   *testenv.S3Link
	store  *Store
}

// newEnv returns a bucket of its own on a server, with a store whose requests
// pass a link.
func newEnv(tb testing.TB, server *testenv.S3Server, c Config) *env {
	tb.Helper()
	e := &env{server: server, bucket: server.Bucket(tb), bare: server.Client(tb), link: server.Link(tb)}
	e.store = e.newStore(tb, c)
	return e
}

// newStore returns another store on the same bucket, as of another process.
func (e *env) newStore(tb testing.TB, c Config) *Store {
	tb.Helper()
	c.Bucket = e.bucket
	if c.UploadKey == nil {
		c.UploadKey = []byte("the same in all of these processes")
	}
	s, err := New(e.server.ClientAt(tb, e.link.Endpoint()), c)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func eachServer(t *testing.T, f func(t *testing.T, s *testenv.S3Server)) {
	t.Helper()
	testenv.EachS3(t, f)
}

func mustPut(tb testing.TB, s *Store, token guard.Token, key, value string) minio.UploadInfo {
	tb.Helper()
	info, err := s.Put(tb.Context(), token, key, bytes.NewReader([]byte(value)), int64(len(value)), PutOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	return info
}

func mustClaim(tb testing.TB, s *Store, token guard.Token) {
	tb.Helper()
	if err := s.Claim(tb.Context(), token); err != nil {
		tb.Fatal(err)
	}
}

// read returns the payload at key, and an error if there is none.
func read(ctx context.Context, s *Store, token guard.Token, key string, o GetOptions) (string, error) {
	object, err := s.Get(ctx, token, key, o)
	if err != nil {
		return "", err
	}
	defer object.Close()
	data, err := io.ReadAll(object)
	return string(data), err
}

func expectValue(tb testing.TB, s *Store, token guard.Token, key, want string) {
	tb.Helper()
	if got, err := read(tb.Context(), s, token, key, GetOptions{}); err != nil || got != want {
		tb.Errorf("%s holds %.60q, %v, want %.60q", key, got, err, want)
	}
}

// expect compares an error and what it says became of the write.
func expect(tb testing.TB, what string, err, reason error, outcome guard.Outcome) {
	tb.Helper()
	if !errors.Is(err, reason) || (reason == nil) != (err == nil) || guard.OutcomeOf(err) != outcome {
		tb.Errorf("%s: %v (%v), want %v (%v)", what, err, guard.OutcomeOf(err), reason, outcome)
	}
}

// stored returns the object at key as the server has it; nil if there is none.
func (e *env) stored(tb testing.TB, key string) ([]byte, layout.Header) {
	tb.Helper()
	object, err := e.bare.GetObject(tb.Context(), e.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	defer object.Close()
	data, err := io.ReadAll(object)
	if request.IsAbsent(err) {
		return nil, layout.Header{}
	}
	if err != nil {
		tb.Fatal(err)
	}
	h, err := layout.Parse(data[:min(len(data), layout.HeaderSize)], int64(len(data)))
	if err != nil && !errors.Is(err, layout.ErrBare) {
		tb.Error(err)
	}
	return data, h
}

func (e *env) putBare(tb testing.TB, key, value string) {
	tb.Helper()
	e.putBareTagged(tb, key, value, nil)
}

func (e *env) putBareTagged(tb testing.TB, key, value string, tags map[string]string) {
	tb.Helper()
	// An empty payload that is signed in chunks has a chunk that minio-go does not announce.
	o := minio.PutObjectOptions{ContentType: "text/plain", DisableContentSha256: value == "", UserTags: tags}
	_, err := e.bare.PutObject(tb.Context(), e.bucket, key, bytes.NewReader([]byte(value)), int64(len(value)), o)
	if err != nil {
		tb.Fatal(err)
	}
}

// uploadsLeft are the unfinished uploads in the bucket.
func (e *env) uploadsLeft(tb testing.TB) (keys []string) {
	tb.Helper()
	for upload := range e.bare.ListIncompleteUploads(tb.Context(), e.bucket, "", true) {
		if upload.Err != nil {
			tb.Fatal(upload.Err)
		}
		keys = append(keys, upload.Key)
	}
	return keys
}

func eventually(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		if done() {
			tick.Stop()
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("not within 30 s: %s", what)
		}
	}
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// streamed hides that a reader can seek.
type streamed struct{ r io.Reader }

func (s streamed) Read(p []byte) (int, error) { return s.r.Read(p) }
