package s3proxy

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// An id of an upload or of a version that is a path does not reach the store: one
// that keeps them as files (versitygw 1.8) would remove what lies there, be it
// fenced or another client's.
func TestAttackIDsThatArePaths(t *testing.T) {
	t.Parallel()
	e, whole, foreign := newEnv(t), newEnv(t), newEnv(t)
	p := e.allowing(t, whole.bucket)
	put(t, p.app(t, token(34)), e.bucket, "orders/1", "kept")
	put(t, foreign.core, foreign.bucket, "secret", "kept")
	put(t, p.app(t), whole.bucket, "k", "v")
	put(t, p.app(t), e.bucket, "k", "v")
	for n := range 7 {
		for _, at := range []string{e.bucket + "/orders/1", e.bucket + "/orders", e.bucket + "/.fence", foreign.bucket + "/secret"} {
			id := url.QueryEscape(strings.Repeat("../", n) + "x/../" + at)
			for _, q := range []request{
				{method: http.MethodDelete, target: "?uploadId=" + id},
				{method: http.MethodPut, target: "?partNumber=1&uploadId=" + id, body: "stolen"},
				{method: http.MethodPost, target: "?uploadId=" + id, body: "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>"},
				{method: http.MethodGet, target: "?uploadId=" + id},
				{method: http.MethodGet, target: "?versionId=" + id},
				{method: http.MethodDelete, target: "?versionId=" + id},
				{method: http.MethodPut, header: map[string]string{"x-amz-copy-source": whole.bucket + "/k?versionId=" + id}},
			} {
				for _, bucket := range []string{whole.bucket, e.bucket} {
					q := q
					q.target = "/" + bucket + "/k" + q.target
					if res, body := send(t, q.sign(t, p.addr, appKey, appSecret)); res.StatusCode != http.StatusBadRequest {
						t.Errorf("%s %s: %d %.200s", q.method, q.target, res.StatusCode, body)
					}
				}
			}
		}
	}
	expectValue(t, p.app(t), e.bucket, "orders/1", "kept")
	expectValue(t, foreign.core, foreign.bucket, "secret", "kept")
	put(t, p.app(t, token(34)), e.bucket, "orders/1", "still fenced")
}

// Where a store keeps the parts of uploads that are under way is nobody's key,
// though no resource covers it: whoever writes there changes fenced uploads.
func TestAttackPartsAsKeys(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.allowing(t)
	b := e.begin(t, p.app(t, token(34)), "orders/1", "mine")
	uploads, err := e.core.ListMultipartUploads(t.Context(), e.bucket, "", "", "", "", 10)
	if err != nil || len(uploads.Uploads) != 1 {
		t.Fatalf("%+v, %v", uploads, err)
	}
	key := fmt.Sprintf(".sgwtmp/multipart/%x/%s/1", sha256.Sum256([]byte("orders/1")), uploads.Uploads[0].UploadID)
	_, err = tryPut(t, p.app(t), e.bucket, key, "stolen")
	refused(t, "put", err, 501, "FenceUnsupported")
	_, err = get(t, p.app(t), e.bucket, key, minio.GetObjectOptions{})
	refused(t, "get", err, 501, "FenceUnsupported")
	err = p.app(t).RemoveObject(t.Context(), e.bucket, key, minio.RemoveObjectOptions{})
	refused(t, "delete", err, 501, "FenceUnsupported")
	if err := b.complete(t.Context(), e); err != nil {
		t.Error(err)
	}
	expectValue(t, p.app(t), e.bucket, "orders/1", "mine")
}
