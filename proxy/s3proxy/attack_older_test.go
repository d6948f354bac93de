package s3proxy

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
)

// A new holder has read a key, and then a write lands that an old one had sent
// before. Whatever the new holder writes blindly, in whatever way, comes to
// nothing once, with an answer that no SDK repeats by itself (I9); when it has
// looked again it writes.
func TestAttackOlderWriteInBetween(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	older, newer := e.start(t), e.start(t)
	of := func(resource string, number int64) guard.Token {
		of := token(number)
		of.Resource = resource
		return of
	}
	complete := func(t *testing.T, key string) func() (int, string) {
		holder := newer.app(t, of(key, 34))
		id, err := holder.NewMultipartUpload(t.Context(), e.bucket, key, minio.PutObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		part, err := holder.PutObjectPart(t.Context(), e.bucket, key, id, 1, strings.NewReader("new"), 3, minio.PutObjectPartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return func() (int, string) {
			_, err := holder.CompleteMultipartUpload(t.Context(), e.bucket, key, id, []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}, minio.PutObjectOptions{})
			if r := (minio.ErrorResponse{}); errors.As(err, &r) {
				return r.StatusCode, r.Code
			}
			return http.StatusOK, ""
		}
	}
	simple := func(method string, size int, header map[string]string) func(*testing.T, string) func() (int, string) {
		return func(t *testing.T, key string) func() (int, string) {
			return func() (int, string) {
				res, body := newer.do(t, method, "/"+e.bucket+"/"+key, strings.Repeat("n", size), carrying(t, of(key, 34), header))
				return res.StatusCode, code(body)
			}
		}
	}
	put(t, newer.app(t, of("source", 1)), e.bucket, "source", "s")
	for name, prepare := range map[string]func(*testing.T, string) func() (int, string){
		"put":        simple(http.MethodPut, 3, nil),
		"put-expect": simple(http.MethodPut, 3, map[string]string{"Expect": "100-continue"}),
		"put-large":  simple(http.MethodPut, 2<<20, nil),
		"delete":     simple(http.MethodDelete, 0, nil),
		"copy":       simple(http.MethodPut, 0, map[string]string{"x-amz-copy-source": e.bucket + "/source"}),
		"complete":   complete,
	} {
		old := older.app(t, of(name, 33))
		put(t, old, e.bucket, name, "first")
		expectValue(t, newer.app(t, of(name, 34)), e.bucket, name, "first") // 34 has claimed, and read
		act := prepare(t, name)
		put(t, old, e.bucket, name, "late")
		expectValue(t, newer.app(t), e.bucket, name, "late") // somebody else sees it
		if status, code := act(); status != http.StatusPreconditionFailed || code != "PreconditionFailed" {
			t.Errorf("%s: %d %s, want 412 PreconditionFailed", name, status, code)
		}
		expectValue(t, newer.app(t, of(name, 34)), e.bucket, name, "late")
		if status, code := act(); status/100 != 2 {
			t.Errorf("%s again: %d %s", name, status, code)
		}
		_, err := tryPut(t, old, e.bucket, name, "later")
		refused(t, name+", then by the old holder", err, 412, "FenceTokenStale")
	}
}
