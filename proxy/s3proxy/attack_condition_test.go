package s3proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// A condition that names no ETag at all is false, not none: a client whose
// variable is empty must not overwrite what it has not seen.
func TestAttackEmptyConditions(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	holder := p.app(t, token(34))
	put(t, holder, e.bucket, "k", "kept")
	target := "/" + e.bucket + "/k"
	tokened := carrying(t, token(34))
	upload := func() string {
		id, err := holder.NewMultipartUpload(t.Context(), e.bucket, "k", minio.PutObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		part, err := holder.PutObjectPart(t.Context(), e.bucket, "k", id, 1, strings.NewReader("lost"), 4, minio.PutObjectPartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return "?uploadId=" + id + "\x00<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + part.ETag + "</ETag></Part></CompleteMultipartUpload>"
	}
	for _, etag := range []string{`""`, `"-0"`, "-0", `"`, `"""`, ` "" `, `""-0`, `"*"`, `"*-0"`, "*-0"} {
		query, document, _ := strings.Cut(upload(), "\x00")
		for _, q := range []request{
			{method: http.MethodPut, target: target, body: "lost"},
			{method: http.MethodDelete, target: target},
			{method: http.MethodPut, target: target, header: with(map[string]string{"x-amz-copy-source": e.bucket + "/k", "x-amz-metadata-directive": "REPLACE", "x-amz-meta-a": "lost"})},
			{method: http.MethodPost, target: target + query, body: document},
		} {
			q.header = with(q.header, tokened, map[string]string{"If-Match": etag})
			res, body := send(t, q.sign(t, p.addr, appKey, appSecret))
			if res.StatusCode < 400 || res.StatusCode >= 500 {
				t.Errorf("%s %.40s, If-Match %s: %d %.200s", q.method, q.target, etag, res.StatusCode, body)
			}
		}
		res, body := p.do(t, http.MethodPut, "/"+e.bucket+"/copy", "", with(tokened, map[string]string{"x-amz-copy-source": e.bucket + "/k", "x-amz-copy-source-if-match": etag}))
		if res.StatusCode != http.StatusPreconditionFailed {
			t.Errorf("copy, source If-Match %s: %d %.200s", etag, res.StatusCode, body)
		}
		if res, _ := p.do(t, http.MethodGet, target, "", map[string]string{"If-Match": etag}); res.StatusCode != http.StatusPreconditionFailed {
			t.Errorf("get, If-Match %s: %d", etag, res.StatusCode)
		}
		if res, _ := p.do(t, http.MethodHead, target, "", map[string]string{"If-Match": etag}); res.StatusCode != http.StatusPreconditionFailed {
			t.Errorf("head, If-Match %s: %d", etag, res.StatusCode)
		}
	}
	expectValue(t, p.app(t), e.bucket, "k", "kept")
	if stat, err := p.app(t).StatObject(t.Context(), e.bucket, "k", minio.StatObjectOptions{}); err != nil || stat.UserMetadata["A"] != "" {
		t.Errorf("%+v, %v", stat, err)
	}
}

// Connection, which nobody has to sign, does not take a signed condition from a
// request that is forwarded.
func TestAttackConnectionNamesCondition(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.allowing(t)
	put(t, p.app(t), e.bucket, "free", "kept")
	for name, value := range map[string]string{"If-None-Match": "*", "If-Match": `"0123"`} {
		r := request{http.MethodPut, "/" + e.bucket + "/free", "lost", map[string]string{name: value}}.sign(t, p.addr, appKey, appSecret)
		r.Header.Set("Connection", "close, "+strings.ToLower(name))
		if res, body := send(t, r); res.StatusCode != http.StatusPreconditionFailed {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
	}
	expectValue(t, p.app(t), e.bucket, "free", "kept")
}
