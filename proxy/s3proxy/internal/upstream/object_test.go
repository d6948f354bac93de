package upstream

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func newUpstream(t *testing.T, host, region, key, secret string) *Upstream {
	t.Helper()
	u, err := New(Config{
		Host: host, Region: region, AccessKey: key, SecretKey: secret,
		Transport: &http.Transport{DialContext: new(net.Dialer).DialContext, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute},
	}, Metrics{Seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "s", Help: "seconds"}, []string{"method"})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Rest)
	return u
}

// What is read and written here is what minio-go reads and writes, errors too.
func TestLikeMinio(t *testing.T) {
	t.Parallel()
	server := testenv.StartS3(t)
	u := newUpstream(t, server.Endpoint(), server.Region, server.AccessKey, server.SecretKey)
	bucket := server.Bucket(t)
	put := minio.PutObjectOptions{
		ContentType: "text/plain; charset=utf-8", CacheControl: "no-cache", ContentLanguage: "de", ContentDisposition: `attachment; filename="x y"`,
		Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), UserTags: map[string]string{"a": "b c"},
		UserMetadata: map[string]string{"X-Amz-Meta-Name": "value, with  two spaces", "x-amz-meta-umlaut": "=?UTF-8?B?w6Q=?="},
	}
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 300 << 10, 2 << 20} {
		for _, key := range []string{"plain", "a b/+&=?#%25é~*'()!,;:@$"} {
			value := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
			info, err := u.PutObject(t.Context(), bucket, key, bytes.NewReader(value), int64(size), "", "", put)
			if err != nil {
				t.Fatalf("%d bytes to %q: %v", size, key, err)
			}
			alike(t, u, bucket, key, minio.GetObjectOptions{}, value)
			stat, err := u.Core.StatObject(t.Context(), bucket, key, minio.StatObjectOptions{})
			if err != nil || stat.ETag != info.ETag || stat.Size != int64(size) {
				t.Errorf("%q: %v, %+v and %+v", key, err, stat, info)
			}
		}
	}
	value := bytes.Repeat([]byte("x"), 1000)
	info, err := u.PutObject(t.Context(), bucket, "k", bytes.NewReader(value), 1000, "", sha(value), put)
	if err != nil {
		t.Fatal(err)
	}
	var inside, match, differ minio.GetObjectOptions
	_ = inside.SetRange(10, 19)
	_ = match.SetMatchETag(info.ETag)
	_ = differ.SetMatchETagExcept(info.ETag)
	alike(t, u, bucket, "k", inside, value[10:20])
	alike(t, u, bucket, "k", match, value)
	alike(t, u, bucket, "k", differ, nil)
	alike(t, u, bucket, "not there", match, nil)
	alike(t, u, "no-such-bucket", "k", match, nil)
	var beyond minio.GetObjectOptions
	_ = beyond.SetRange(5000, 5010)
	alike(t, u, bucket, "k", beyond, nil)
}

// A write whose condition is false or that has no bucket fails as minio-go's does;
// and one whose hash is wrong, which minio-go does not send without TLS.
func TestWritesFailAlike(t *testing.T) {
	t.Parallel()
	server := testenv.StartS3(t)
	u := newUpstream(t, server.Endpoint(), server.Region, server.AccessKey, server.SecretKey)
	bucket := server.Bucket(t)
	if _, err := u.PutObject(t.Context(), bucket, "k", strings.NewReader("x"), 1, "", "", minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	var absent minio.PutObjectOptions
	absent.SetMatchETagExcept("*")
	for name, c := range map[string]struct {
		bucket string
		opts   minio.PutObjectOptions
	}{
		"condition": {bucket: bucket, opts: absent},
		"bucket":    {bucket: "no-such-bucket"},
	} {
		_, ours := u.PutObject(t.Context(), c.bucket, "k", strings.NewReader("y"), 1, "", "", c.opts)
		_, theirs := u.Core.PutObject(t.Context(), c.bucket, "k", strings.NewReader("y"), 1, "", "", c.opts)
		sameError(t, name, ours, theirs)
	}
	_, err := u.PutObject(t.Context(), bucket, "k", strings.NewReader("y"), 1, "", sha([]byte("other")), minio.PutObjectOptions{})
	if e := (minio.ErrorResponse{}); !errors.As(err, &e) || e.Code != "XAmzContentSHA256Mismatch" {
		t.Errorf("a wrong hash: %v", err)
	}
}

func alike(t *testing.T, u *Upstream, bucket, key string, o minio.GetObjectOptions, value []byte) {
	t.Helper()
	theirs, their, _, theirErr := u.Core.GetObject(t.Context(), bucket, key, o)
	if theirErr == nil {
		defer theirs.Close()
	}
	ours, our, _, err := u.GetObject(t.Context(), bucket, key, o)
	if theirErr != nil || err != nil {
		sameError(t, key, err, theirErr)
		return
	}
	defer ours.Close()
	their.Headers, our.Headers = nil, nil
	their.ChecksumAlgorithm, their.ChecksumMode = "", ""
	const umlaut = "X-Amz-Meta-Umlaut"
	if encoded := our.Metadata[umlaut]; len(encoded) == 1 && encoded[0] == "=?UTF-8?B?w6Q=?=" { // which minio-go decodes
		our.Metadata[umlaut], our.UserMetadata["Umlaut"] = []string{"ä"}, "ä"
	}
	if diff := cmp.Diff(their, our, cmp.FilterPath(func(p cmp.Path) bool {
		return strings.HasPrefix(p.String(), "Checksum") || p.String() == "UserTags"
	}, cmp.Ignore()), cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("%q: minio-go's is not ours:\n%s", key, diff)
	}
	if data, err := io.ReadAll(ours); err != nil || !bytes.Equal(data, value) {
		t.Errorf("%q: %d bytes, %v; want %d", key, len(data), err, len(value))
	}
}

func sameError(t *testing.T, name string, ours, theirs error) {
	t.Helper()
	var our, their minio.ErrorResponse
	if !errors.As(ours, &our) || !errors.As(theirs, &their) {
		t.Fatalf("%s: %v and %v", name, ours, theirs)
	}
	if our.StatusCode != their.StatusCode || our.Code != their.Code {
		t.Errorf("%s: %d %s, minio-go has %d %s", name, our.StatusCode, our.Code, their.StatusCode, their.Code)
	}
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Errors without a document are told by their status, and headers that are not dates
// or numbers are looked at as far as they matter.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	const modified = "Mon, 02 Jan 2006 15:04:05 GMT"
	cases := map[string]struct {
		status int
		header map[string]string
		fails  bool
	}{
		"304":               {status: http.StatusNotModified, fails: true},
		"403":               {status: http.StatusForbidden, fails: true},
		"404":               {status: http.StatusNotFound, fails: true},
		"412":               {status: http.StatusPreconditionFailed, fails: true},
		"503":               {status: http.StatusServiceUnavailable, fails: true},
		"no date":           {status: http.StatusOK, header: map[string]string{"Last-Modified": "yesterday"}, fails: true},
		"expires never":     {status: http.StatusOK, header: map[string]string{"Last-Modified": modified, "Expires": "0"}},
		"day of one digit":  {status: http.StatusOK, header: map[string]string{"Last-Modified": "Mon, 2 Jan 2006 15:04:05 GMT"}},
		"count is no count": {status: http.StatusOK, header: map[string]string{"Last-Modified": modified, "X-Amz-Tagging-Count": "x"}, fails: true},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range c.header {
					w.Header().Set(name, value)
				}
				w.Header().Set("ETag", `"e"`)
				w.WriteHeader(c.status)
			}))
			t.Cleanup(server.Close)
			u := newUpstream(t, strings.TrimPrefix(server.URL, "http://"), "us-east-1", "k", "s")
			body, info, _, err := u.GetObject(t.Context(), "bucket", "key", minio.GetObjectOptions{})
			_, _, _, theirs := u.Core.GetObject(t.Context(), "bucket", "key", minio.GetObjectOptions{})
			switch {
			case (err != nil) != c.fails:
				t.Fatal(err)
			case err == nil:
				body.Close()
				if info.LastModified.IsZero() {
					t.Error("no date")
				}
			case c.status != http.StatusOK:
				sameError(t, name, err, theirs)
			}
		})
	}
}
