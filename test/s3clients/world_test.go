package s3clients_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// way is how a client gets to its bucket.
type way uint8

const (
	direct way = iota
	// current: through the proxy, with the newest token.
	current
	// overtaken: the same, until the client says "claim?".
	overtaken
	// stale: through the proxy, with a token that is older than the newest claim.
	stale
	// untokened: through the proxy, without a token.
	untokened
)

// The region is the only one of the server and the proxy.
const region = "us-east-1"

// world is a bucket, and how a client gets there.
type world struct {
	server         *testenv.S3Server
	bucket         string
	by             way
	tap            *tap
	link           *testenv.S3Link // between the proxy and the server
	access, secret string
	token          string // of the client; "" is none
	tls            bool
	admin          *minio.Client // of the server
	store          *s3store.Store
}

func token(number int64) guard.Token {
	return guard.Token{Resource: "orders", Number: number, Mode: guard.Exclusive, Holder: "holder", Issuer: "test"}
}

func newWorld(t *testing.T, by way, secure bool) *world {
	t.Helper()
	s := testenv.S3(t)
	w := &world{
		server: s, bucket: s.Bucket(t), by: by, tls: secure,
		access: s.AccessKey, secret: s.SecretKey, admin: s.Client(t),
	}
	var err error
	if w.store, err = s3store.New(w.admin, s3store.Config{Bucket: w.bucket}); err != nil {
		t.Fatal(err)
	}
	target := s.Endpoint()
	if by != direct {
		w.link = s.Link(t)
		w.access, w.secret = "AKIDOFACLIENT", "secret-of-a-client"
		target = serve(t, s, w)
	}
	if by == current || by == overtaken || by == stale {
		w.token = token(41).String()
	}
	w.tap = newTap(t, target, certificate(t, secure), by == direct)
	if by == stale || by == untokened {
		w.seed(t)
	}
	return w
}

// seed has a newer holder write what a client with an older token, or with none,
// will try to change.
func (w *world) seed(t *testing.T) {
	t.Helper()
	w.claim(t)
	for _, key := range []string{"seed/a", "seed/b", "seed/c"} {
		w.put(t, key, "of the newer holder")
	}
}

// claim makes a token the newest that is newer than the client's.
func (w *world) claim(t *testing.T) {
	t.Helper()
	if err := w.store.Claim(t.Context(), token(42)); err != nil {
		t.Fatalf("claim: %v", err)
	}
}

// put writes under the newer token.
func (w *world) put(t *testing.T, key, text string) {
	t.Helper()
	if _, err := w.store.Put(t.Context(), token(42), key, strings.NewReader(text), int64(len(text)), s3store.PutOptions{}); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

// state is what a client finds in the bucket, as told by the server.
func (w *world) state(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, o := range w.objects(t) {
		body, info := w.raw(t, o.Key)
		if h, err := layout.Parse(body[:min(len(body), layout.HeaderSize)], int64(len(body))); err == nil {
			if h.Kind == layout.Tombstone {
				continue
			}
			body = body[layout.HeaderSize:]
		} else if w.by != direct {
			t.Errorf("%q is not framed: %v", o.Key, err)
		}
		tags, err := w.admin.GetObjectTagging(t.Context(), w.bucket, o.Key, minio.GetObjectTaggingOptions{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%q %d %.8x %s %s\n", o.Key, len(body), sha256.Sum256(body), metadata(info), tags)
	}
	return w.plain(text.String())
}

// metadata is what a client has said of an object.
func metadata(info minio.ObjectInfo) string {
	kept := map[string]string{}
	for _, name := range []string{"Content-Type", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Expires"} {
		if v := info.Metadata.Get(name); v != "" {
			kept[name] = v
		}
	}
	maps.Copy(kept, info.UserMetadata)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, kept[name]))
	}
	return strings.Join(parts, " ")
}

// untouched is everything in the bucket, as it is there.
func (w *world) untouched(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for o := range w.admin.ListObjects(t.Context(), w.bucket, minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		fmt.Fprintf(&text, "%q %s %d %s\n", o.Key, o.ETag, o.Size, o.LastModified)
	}
	for u := range w.admin.ListIncompleteUploads(t.Context(), w.bucket, "", true) {
		if u.Err != nil {
			t.Fatal(u.Err)
		}
		fmt.Fprintf(&text, "upload of %q\n", u.Key)
	}
	return text.String()
}

// objects are those that are not the fence's own.
func (w *world) objects(t *testing.T) []minio.ObjectInfo {
	t.Helper()
	var all []minio.ObjectInfo
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for o := range w.admin.ListObjects(ctx, w.bucket, minio.ListObjectsOptions{Recursive: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if !layout.Reserved(o.Key) {
			all = append(all, o)
		}
	}
	return all
}

func (w *world) raw(t *testing.T, key string) ([]byte, minio.ObjectInfo) {
	t.Helper()
	o, err := w.admin.GetObject(t.Context(), w.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	var body bytes.Buffer
	if _, err := io.Copy(&body, o); err != nil {
		t.Fatalf("read %q: %v", key, err)
	}
	info, err := o.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return body.Bytes(), info
}

// endpoint is the URL that a client is given.
func (w *world) endpoint() string {
	if w.tls {
		return "https://" + w.tap.addr
	}
	return "http://" + w.tap.addr
}

// env is the environment of a client, with the token where `fenceproxy exec --s3`
// puts it, and the file of whom to trust in a variable.
func (w *world) env(t *testing.T, authorityIn string) []string {
	t.Helper()
	env := []string{
		"ENDPOINT=" + w.endpoint(), "BUCKET=" + w.bucket,
		"AWS_ACCESS_KEY_ID=" + w.access, "AWS_SECRET_ACCESS_KEY=" + w.secret,
		"AWS_REGION=" + region, "AWS_DEFAULT_REGION=" + region, "AWS_EC2_METADATA_DISABLED=true", "AWS_PAGER=",
		"LC_ALL=C.UTF-8", "TZ=UTC", "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PYTHONDONTWRITEBYTECODE=1",
	}
	if w.tls {
		ca := authority(t)
		env = append(env, authorityIn+"="+ca, "SSL_CERT_FILE="+ca)
	}
	if w.token != "" {
		env = append(env, "AWS_SESSION_TOKEN="+w.token)
	}
	return env
}
