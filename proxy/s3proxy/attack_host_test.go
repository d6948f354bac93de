package s3proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7/pkg/signer"
)

// However host, path and request line are put together, a request is about the one
// key that is looked at: none without a token writes what is fenced, none reaches
// a bucket that is not the client's, and the fence's own keys are nobody's.
func TestAttackHosts(t *testing.T) {
	t.Parallel()
	e, foreign := newEnv(t), newEnv(t)
	c := e.config()
	c.Untokened = Allow
	c.Resources = []Resource{{Prefix: e.bucket + "/orders/", Resource: "orders"}}
	c.Domains = []string{"s3.test", "deep.s3.test"}
	p := start(t, c)
	put(t, p.app(t, token(34)), e.bucket, "orders/1", "kept")
	put(t, foreign.core, foreign.bucket, "orders/1", "kept")
	b, f := e.bucket, foreign.bucket
	for _, at := range []struct{ host, target string }{
		{b + ".s3.test", "/orders/1"},
		{strings.ToUpper(b) + ".S3.TEST:80", "/orders/1"},
		{b + ".deep.s3.test", "/orders/1"},
		{b + ".s3.test", "//orders/1"},
		{b + ".s3.test", "/./orders/1"},
		{b + ".s3.test", "/x/..%2Forders/1"},
		{b + ".s3.test", "/../" + f + "/orders/1"},
		{b + ".s3.test", "/%2e%2e/" + f + "/orders/1"},
		{b + ".s3.test", "/.fence/x"},
		{f + ".s3.test", "/orders/1"},
		{f + ".s3.test", "/" + b + "/orders/1"},
		{".s3.test", "/" + b + "/orders/1"},
		{"..s3.test", "/" + b + "/orders/1"},
		{b + "..s3.test", "/orders/1"},
		{"%2e%2e.s3.test", "/" + b + "/orders/1"},
		{b + "%2forders.s3.test", "/1"},
		{"s3.test", "/" + b + "/orders/1"},
		{"s3.test.", "/" + b + "/orders/1"},
		{"s3.test", "/" + b + "/orders%2F1"},
		{"s3.test", "http://s3.test/" + b + "/orders/1"},
		{"ignored", "http://" + b + ".s3.test/orders/1"},
		{"ignored", "http://" + b + ".s3.test/%6frders/1"},
		{b + ".s3.test", "http://" + f + ".s3.test/orders/1"},
		{"s3.test", "/" + b + "/orders/1#/free"},
		{"s3.test", "/" + b + "/orders/1?"},
	} {
		for _, method := range []string{http.MethodPut, http.MethodDelete} {
			conn := p.dial(t)
			if _, err := io.WriteString(conn, requestAt(t, method, at.host, at.target)); err != nil {
				t.Fatal(err)
			}
			status, code := conn.answer()
			if status < 400 || status >= 500 && status != http.StatusNotImplemented || code == "SignatureDoesNotMatch" {
				t.Errorf("%s %s, host %s: %d %s", method, at.target, at.host, status, code)
			}
			conn.Close()
		}
	}
	expectValue(t, p.app(t), b, "orders/1", "kept")
	expectValue(t, foreign.core, f, "orders/1", "kept")
}

// requestAt is a request of the app's on the wire, with this host and this target
// in its first line. In the absolute form the target's host counts.
func requestAt(t *testing.T, method, host, target string) string {
	t.Helper()
	counts, path := host, target
	if rest, absolute := strings.CutPrefix(target, "http://"); absolute {
		counts, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://x/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = counts
	r.URL.RawPath, r.URL.RawQuery, _ = strings.Cut(path, "?")
	if r.URL.Path, err = url.PathUnescape(r.URL.RawPath); err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	r = signer.SignV4(*r, appKey, appSecret, "", "us-east-1")
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n", method, target, host)
	_ = r.Header.Write(&b)
	return b.String() + "\r\n"
}
