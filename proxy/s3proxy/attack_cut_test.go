package s3proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// harm is something that befalls the n-th request to the store.
type harm struct {
	name string
	do   func(l *testenv.S3Link, n int)
}

func harms() []harm {
	every := func(s3link.Request) bool { return true }
	return []harm{
		{"reply lost", func(l *testenv.S3Link, n int) { l.DropReply(every, n) }},
		{"500 that is not true", func(l *testenv.S3Link, n int) { l.SpoilReply(every, n, 500, "InternalError") }},
		{"503", func(l *testenv.S3Link, n int) { l.Answer(every, n, 503, "SlowDown") }},
		{"403", func(l *testenv.S3Link, n int) { l.Answer(every, n, 403, "SignatureDoesNotMatch") }},
		{"cut at the front", func(l *testenv.S3Link, n int) { l.CutBody(every, n, 0) }},
		{"cut inside", func(l *testenv.S3Link, n int) { l.CutBody(every, n, 70) }},
	}
}

// Whatever befalls any one of the requests that an operation makes of the store,
// what the client is told is true: an acknowledged write is there, one that was
// refused or not carried out is not, and nothing else is told but 500, unknown
// (I2). And the next request on the connection is answered.
func TestAttackStoreCut(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	direct := e.start(t)
	put(t, direct.app(t, token(34)), e.bucket, "source", "new")
	large := strings.Repeat("new", 500<<10)
	for name, act := range map[string]func(minio.Core, string) (string, error){
		"put": func(c minio.Core, key string) (string, error) {
			_, err := tryPut(t, c, e.bucket, key, "new")
			return "new", err
		},
		"large": func(c minio.Core, key string) (string, error) {
			_, err := tryPut(t, c, e.bucket, key, large)
			return large, err
		},
		"delete": func(c minio.Core, key string) (string, error) {
			return "", c.RemoveObject(t.Context(), e.bucket, key, minio.RemoveObjectOptions{})
		},
		"copy": func(c minio.Core, key string) (string, error) {
			_, err := c.CopyObject(t.Context(), e.bucket, "source", e.bucket, key, nil, minio.CopySrcOptions{}, minio.PutObjectOptions{})
			return "new", err
		},
		"upload": func(c minio.Core, key string) (string, error) { return "new", cutUpload(t, c, e.bucket, key) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link := testenv.NewS3Link(t, e.store.Endpoint())
			c := e.config()
			c.Upstream.Endpoint = "http://" + link.Endpoint()
			for _, h := range harms() {
				for n := 1; ; n++ {
					key := fmt.Sprint(name, h.name, n)
					put(t, direct.app(t, token(34)), e.bucket, key, "old")
					app := start(t, c).app(t, token(34)) // of a proxy that has seen nothing
					link.Forget()
					h.do(link, n)
					want, err := act(app, key)
					if link.Count() < n {
						break // there is no n-th request
					}
					got, gone := get(t, direct.app(t), e.bucket, key, minio.GetObjectOptions{})
					if gone != nil {
						got = ""
					}
					judgeCut(t, key, err, got, want)
					expectValue(t, app, e.bucket, "source", "new")
				}
			}
		})
	}
}

func cutUpload(t *testing.T, c minio.Core, bucket, key string) error {
	id, err := c.NewMultipartUpload(t.Context(), bucket, key, minio.PutObjectOptions{})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	part, err := c.PutObjectPart(t.Context(), bucket, key, id, 1, strings.NewReader("new"), 3, minio.PutObjectPartOptions{})
	if err != nil {
		return fmt.Errorf("part: %w", err)
	}
	_, err = c.CompleteMultipartUpload(t.Context(), bucket, key, id, []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}, minio.PutObjectOptions{})
	return err
}

// judgeCut holds what the client was told against what the store has.
func judgeCut(t *testing.T, what string, err error, got, want string) {
	t.Helper()
	var r minio.ErrorResponse
	switch errors.As(err, &r); {
	case got != "old" && got != want:
		t.Errorf("%s: holds %.40q, and that is neither", what, got)
	case err == nil && got != want:
		t.Errorf("%s: acknowledged, and holds %.40q", what, got)
	case err == nil, lost(r.StatusCode, r.Message), r.Code == "InternalError":
	case r.StatusCode == http.StatusServiceUnavailable && got != "old":
		t.Errorf("%s: told that nothing was written, and it was: %v", what, err)
	case r.StatusCode != http.StatusServiceUnavailable:
		t.Errorf("%s: the holder is told %d %v", what, r.StatusCode, err)
	}
}
