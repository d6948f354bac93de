package s3proxy

import (
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// A client goes while its write is on the way to the store, and only that it has gone
// ends the request. Whoever listens on is told nothing, or that nobody knows (I2). The
// write that arrives after the next holder's is not applied (I1); one that arrives
// before it is what the next holder finds.
func TestAttackGoneWhileWriting(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	direct := e.start(t)
	link := testenv.NewS3Link(t, e.store.Endpoint())
	c := e.config()
	c.Upstream.Endpoint = "http://" + link.Endpoint()
	p := start(t, c)
	for _, kind := range []string{"put", "large", "delete", "many", "copy", "complete"} {
		for how, leave := range leavings() {
			for _, before := range []bool{false, true} {
				t.Run(fmt.Sprint(kind, how, before), func(t *testing.T) {
					t.Parallel()
					h := hangUp{e: e, p: p, direct: direct, key: fmt.Sprint(kind, how, before), kind: kind}
					put(t, direct.app(t, h.token(34)), e.bucket, h.key, "old")
					q, want := h.write(t)
					held := link.Hold(func(r s3link.Request) bool {
						return r.Key == h.key && (r.Op == s3link.PutObject || r.Op == s3link.CompleteMultipartUpload)
					}, 1)
					conn := p.dial(t)
					_, _ = io.WriteString(conn, rawRequest(t, p, q, fmt.Sprintf("Content-Length: %d\r\n", len(q.body)))+q.body)
					<-held.Taken()
					leave(conn.Conn)
					if how == "half" {
						told, _ := io.ReadAll(conn.in)
						if len(told) > 0 && !strings.Contains(string(told), "It is unknown whether") {
							t.Errorf("was told %q", told)
						}
						conn.ended()
					}
					first := h.direct.app(t, h.token(34))
					if before {
						if status, answer, err := held.Deliver(t.Context()); err != nil || status/100 != 2 {
							t.Fatalf("delivered: %d %s, %v", status, answer, err)
						}
						if want == "" {
							_, err := get(t, first, e.bucket, h.key, minio.GetObjectOptions{})
							refused(t, "what was deleted", err, 404, "NoSuchKey")
						} else {
							expectValue(t, first, e.bucket, h.key, want)
						}
					}
					put(t, h.direct.app(t, h.token(35)), e.bucket, h.key, "next")
					_, _, _ = held.Deliver(t.Context()) // what comes of it the key tells
					expectValue(t, h.direct.app(t, h.token(35)), e.bucket, h.key, "next")
				})
			}
		}
	}
	t.Cleanup(func() {
		eventually(t, "nobody is left", func() bool { return gauge(t, p.metrics.connections) == 0 && gauge(t, p.metrics.inFlight) == 0 })
	})
}

// write is the client's, and what its key holds then.
func (h *hangUp) write(t *testing.T) (q request, want string) {
	t.Helper()
	q = request{method: http.MethodPut, target: "/" + h.e.bucket + "/" + h.key, body: "new", header: carrying(t, h.token(34))}
	switch first := h.direct.app(t, h.token(34)); h.kind {
	case "large":
		q.body = strings.Repeat("new", 100<<10)
	case "delete":
		q.method, q.body = http.MethodDelete, ""
	case "many":
		q.method, q.target = http.MethodPost, "/"+h.e.bucket+"?delete="
		q.body = "<Delete><Object><Key>" + h.key + "</Key></Object></Delete>"
		sum := md5.Sum([]byte(q.body))
		q.header["Content-MD5"] = base64.StdEncoding.EncodeToString(sum[:])
		return q, ""
	case "copy":
		put(t, first, h.e.bucket, h.key+"-source", "copied")
		q.header["X-Amz-Copy-Source"], q.body = h.e.bucket+"/"+h.key+"-source", ""
		return q, "copied"
	case "complete":
		id, err := first.NewMultipartUpload(t.Context(), h.e.bucket, h.key, minio.PutObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		part, err := first.PutObjectPart(t.Context(), h.e.bucket, h.key, id, 1, strings.NewReader("new"), 3, minio.PutObjectPartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		q.method, q.target = http.MethodPost, q.target+"?uploadId="+id
		q.body = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + part.ETag + "</ETag></Part></CompleteMultipartUpload>"
		return q, "new"
	}
	return q, q.body
}
