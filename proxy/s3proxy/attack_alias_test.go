package s3proxy

import (
	"crypto/md5"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// allowingAll is a proxy that fences orders/ only, for a client that may use all
// buckets.
func (e *env) allowingAll(tb testing.TB) *proxy {
	tb.Helper()
	c := e.config()
	c.Untokened = Allow
	c.Resources = []Resource{{Prefix: e.bucket + "/orders/", Resource: "orders"}}
	c.Clients = []Client{{AccessKey: appKey, SecretKey: appSecret, Buckets: []string{"*"}}}
	return start(tb, c)
}

// A name that is no bucket's must not become the way to a bucket's keys when the
// store, or whatever is in front of it, reads the path in its own way.
func TestAttackBucketNames(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.allowingAll(t)
	put(t, p.app(t, token(34)), e.bucket, "orders/1", "kept")
	for _, bucket := range []string{
		e.bucket + "%2Forders", e.bucket + "%2f.%2forders", e.bucket + "%2Fx%2F..%2Forders", "%2e%2E%2f" + e.bucket + "%2Forders",
		".%2F" + e.bucket + "%2Forders", "%2F" + e.bucket + "%2Forders", e.bucket + "%2Forders%2F..%2Forders", e.bucket + "%252Forders",
		e.bucket + "%00%2Forders", e.bucket + "%5Corders",
	} {
		attackAlias(t, e, p, "/"+bucket+"/1")
	}
	for _, target := range []string{
		"/./" + e.bucket + "/orders/1", "/../" + e.bucket + "/orders/1", "/%2e/" + e.bucket + "/orders/1", "/%2e%2E/" + e.bucket + "/orders/1",
		"//" + e.bucket + "/orders/1", "/%2F" + e.bucket + "/orders/1", "/x/../" + e.bucket + "/orders/1", "/" + e.bucket + "%2Forders%2F1",
		"/" + e.bucket + "./orders/1", "/" + strings.ToUpper(e.bucket) + "/orders/1", "/%20" + e.bucket + "/orders/1", "/" + e.bucket + "%0A/orders/1",
		"/./" + e.bucket + "/.fence/x", "/../" + e.bucket + "/.fence/x", "/" + e.bucket + "%2F.fence/x",
	} {
		attackAlias(t, e, p, target)
	}
	expectValue(t, p.app(t), e.bucket, "orders/1", "kept")
	for info := range e.bare.ListObjects(t.Context(), e.bucket, minio.ListObjectsOptions{Recursive: true}) {
		if !strings.HasPrefix(info.Key, ".fence/marks/") && info.Key != ".fence/selftest" && info.Key != "orders/1" {
			t.Errorf("there is %q now", info.Key)
		}
	}
	buckets, err := e.bare.ListBuckets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range buckets {
		if strings.Contains(b.Name, "orders") || strings.Contains(b.Name, e.bucket) && b.Name != e.bucket {
			t.Errorf("there is bucket %q now", b.Name)
		}
	}
}

// attackAlias writes, deletes, tags and reads by a target that may be taken for a
// fenced key, without a token.
func attackAlias(t *testing.T, e *env, p *proxy, target string) {
	t.Helper()
	for _, q := range []request{
		{method: http.MethodPut, target: target, body: "stolen"},
		{method: http.MethodPut, target: target, header: map[string]string{"X-Amz-Copy-Source": e.bucket + "/free"}},
		{method: http.MethodPut, target: target + "?tagging", body: "<Tagging><TagSet/></Tagging>"},
		{method: http.MethodPost, target: target + "?uploads"},
		{method: http.MethodDelete, target: target},
		{method: http.MethodGet, target: target},
	} {
		res, body := send(t, q.sign(t, p.addr, appKey, appSecret))
		if res.StatusCode < 400 {
			t.Errorf("%s %s: %d %.200s", q.method, q.target, res.StatusCode, body)
		}
		if strings.Contains(body, "kept") {
			t.Errorf("%s %s: read %q", q.method, q.target, body)
		}
	}
	free := request{method: http.MethodPut, target: "/" + e.bucket + "/copy", header: map[string]string{"X-Amz-Copy-Source": target}}
	if res, body := send(t, free.sign(t, p.addr, appKey, appSecret)); res.StatusCode < 400 && !strings.Contains(body, "<Error>") {
		t.Errorf("copy of %s: %d %.200s", target, res.StatusCode, body)
	}
}

// The keys of a DeleteObjects are looked at where nothing is fenced, too: a store
// of files takes "../bucket/key" for another bucket's, and the fence's own keys
// are nobody's.
func TestAttackDeleteObjectsClimbs(t *testing.T) {
	t.Parallel()
	e, whole, foreign := newEnv(t), newEnv(t), newEnv(t)
	p := e.allowing(t, whole.bucket)
	put(t, p.app(t, token(34)), e.bucket, "orders/1", "kept")
	put(t, foreign.core, foreign.bucket, "secret", "kept")
	remove := func(bucket string, keys ...string) (int, string) {
		doc := "<Delete><Object><Key>" + strings.Join(keys, "</Key></Object><Object><Key>") + "</Key></Object></Delete>"
		sum := md5.Sum([]byte(doc))
		res, body := p.do(t, http.MethodPost, "/"+bucket+"?delete", doc, map[string]string{"Content-MD5": base64.StdEncoding.EncodeToString(sum[:])})
		return res.StatusCode, body
	}
	mark := layout.MarkKey("orders")
	for _, up := range []string{"../", "a/../../", "/../", "./../", "a/..//../"} {
		for _, at := range []string{e.bucket + "/orders/1", e.bucket + "/" + mark, foreign.bucket + "/secret"} {
			if status, body := remove(whole.bucket, "free", up+at); status < 400 {
				t.Errorf("%s: %d %s", up+at, status, body)
			}
			if _, body := remove(e.bucket, up+at); !strings.Contains(body, "<Error>") {
				t.Errorf("%s, where some are fenced: %s", up+at, body)
			}
		}
	}
	if status, body := remove(whole.bucket, ".fence/x"); status < 400 {
		t.Errorf("the fence's own: %d %s", status, body)
	}
	expectValue(t, p.app(t), e.bucket, "orders/1", "kept")
	expectValue(t, foreign.core, foreign.bucket, "secret", "kept")
	if _, err := e.bare.StatObject(t.Context(), e.bucket, mark, minio.StatObjectOptions{}); err != nil {
		t.Errorf("the mark: %v", err)
	}
	for _, key := range []string{"a", "b&amp;c", "d/e"} {
		put(t, p.app(t), whole.bucket, strings.ReplaceAll(key, "&amp;", "&"), "v")
	}
	if status, body := remove(whole.bucket, "a", "b&amp;c", "d/e", "never"); status != http.StatusOK || strings.Count(body, "<Deleted>") != 4 {
		t.Errorf("keys: %d %s", status, body)
	}
	for info := range whole.bare.ListObjects(t.Context(), whole.bucket, minio.ListObjectsOptions{Recursive: true}) {
		t.Errorf("there still is %q", info.Key)
	}
}
