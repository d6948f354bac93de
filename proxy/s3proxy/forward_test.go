package s3proxy

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// allowing is a proxy that fences orders/ of the bucket, and nothing else.
func (e *env) allowing(tb testing.TB, more ...string) *proxy {
	tb.Helper()
	c := e.config()
	c.Untokened = Allow
	c.Resources = []Resource{{e.bucket + "/orders/", "orders"}}
	c.Clients[0].Buckets = append(c.Clients[0].Buckets, more...)
	return start(tb, c)
}

// Where no resource covers a key, requests are the client's own business: they
// do what they do past the proxy.
func TestForward(t *testing.T) {
	t.Parallel()
	e, whole := newEnv(t), newEnv(t)
	p := e.allowing(t, whole.bucket)
	app, holder := p.app(t), p.app(t, token(33))
	for _, bucket := range []string{e.bucket, whole.bucket} {
		info := put(t, app, bucket, "free/1", "v")
		if strings.Contains(info.ETag, "-") {
			t.Errorf("ETag %s", info.ETag)
		}
		expectValue(t, app, bucket, "free/1", "v")
		expectValue(t, e.core, bucket, "free/1", "v")
		large := bytes.Repeat([]byte("x"), 3<<20)
		if _, err := app.PutObject(t.Context(), bucket, "large", bytes.NewReader(large), int64(len(large)), "", "", minio.PutObjectOptions{UserMetadata: map[string]string{"a": "b"}}); err != nil {
			t.Error(err)
		}
		expectValue(t, e.core, bucket, "large", string(large))
		if stat, err := app.StatObject(t.Context(), bucket, "large", minio.StatObjectOptions{}); err != nil || stat.Size != 3<<20 || stat.UserMetadata["A"] != "b" {
			t.Errorf("head: %+v, %v", stat, err)
		}
		if v, err := get(t, app, bucket, "large", minio.GetObjectOptions{PartNumber: 1}); err != nil || len(v) != 3<<20 {
			t.Errorf("part: %d, %v", len(v), err)
		}
		put(t, app, bucket, "empty", "")
		for _, key := range []string{"a=b", "a+b", "a b", "a%2Fb", "ü", "a?b"} {
			put(t, app, bucket, key, key)
			expectValue(t, e.core, bucket, key, key)
		}
		if res, body := p.do(t, http.MethodPut, "/"+bucket+"/free/1?tagging", "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>", nil); res.StatusCode/100 != 2 {
			t.Errorf("tagging: %d %s", res.StatusCode, body)
		}
		if res, body := p.do(t, http.MethodGet, "/"+bucket+"/free/1?tagging", "", nil); !strings.Contains(body, "<Key>a</Key>") {
			t.Errorf("tagging: %d %s", res.StatusCode, body)
		}
		if res, body := p.do(t, http.MethodPut, "/"+bucket+"/copy", "", map[string]string{"x-amz-copy-source": bucket + "/free/1"}); res.StatusCode != http.StatusOK {
			t.Errorf("copy: %d %s", res.StatusCode, body)
		}
		expectValue(t, e.core, bucket, "copy", "v")
		if err := app.RemoveObject(t.Context(), bucket, "copy", minio.RemoveObjectOptions{}); err != nil {
			t.Error(err)
		}
		_, err := get(t, e.core, bucket, "copy", minio.GetObjectOptions{})
		refused(t, "get of what was deleted", err, 404, "NoSuchKey")
		_, err = tryPut(t, holder, bucket, "free/1", "w")
		refused(t, "put with a token", err, 403, "FenceTokenMissing")
		_, err = get(t, holder, bucket, "free/1", minio.GetObjectOptions{})
		refused(t, "get with a token", err, 403, "FenceTokenMissing")
	}
	list, err := app.ListObjectsV2(whole.bucket, "", "", "", "", 100)
	if err != nil || len(list.Contents) == 0 {
		t.Errorf("list: %+v, %v", list, err)
	}
	if stat, err := app.StatObject(t.Context(), whole.bucket, "nothing", minio.StatObjectOptions{}); err == nil {
		t.Errorf("head of nothing: %+v", stat)
	}
}

// What a resource covers is fenced under Allow as under any other policy, and no
// request that is forwarded reaches it.
func TestForwardReachesNothingFenced(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.allowing(t)
	app, holder := p.app(t), p.app(t, token(33))
	put(t, holder, e.bucket, "orders/1", "v")
	put(t, app, e.bucket, "free", "f")
	_, err := tryPut(t, app, e.bucket, "orders/1", "w")
	refused(t, "put", err, 403, "FenceTokenMissing")
	err = app.RemoveObject(t.Context(), e.bucket, "orders/1", minio.RemoveObjectOptions{})
	refused(t, "delete", err, 403, "FenceTokenMissing")
	expectValue(t, app, e.bucket, "orders/1", "v") // reads are free
	at := "/" + e.bucket
	for target, copyOf := range map[string]string{
		"PUT //orders/1": "", "PUT /./orders/1": "", "PUT /a/../orders/1": "", "PUT /%2Forders/1": "", "PUT /a%2F..%2Forders%2F1": "", "PUT /orders//../orders/1": "",
		"DELETE //orders/1": "", "DELETE /x/%2e%2e/orders/1": "", "GET //orders/1": "", "POST //orders/1?uploads": "", "PUT //orders/1?tagging": "",
		"PUT /stolen": e.bucket + "/orders/1", "PUT /stolen2": "/" + e.bucket + "/orders%2F1", "PUT /stolen3": e.bucket + "//orders/1", "PUT /stolen4": e.bucket + "/a/../orders/1",
		"PUT /stolen5": "elsewhere/k", "PUT /stolen6": e.bucket + "/.fence/marks/x", "PUT /stolen7": e.bucket + "/../elsewhere/k", "PUT /stolen8": e.bucket,
		"PUT /?lifecycle": "", "PUT /?policy": "", "PUT /?versioning": "", "PUT /?replication": "", "DELETE /": "", "POST /": "", "GET /?versions": "",
		"PUT /free?acl&tagging": "", "PUT /free?unknown": "", "PUT /../elsewhere/k": "", "PUT /..%2Felsewhere/k": "",
	} {
		method, rest, _ := strings.Cut(target, " ")
		var header map[string]string
		sent := "stolen"
		if copyOf != "" {
			sent, header = "", map[string]string{"x-amz-copy-source": copyOf}
		}
		res, body := p.do(t, method, at+rest, sent, header)
		if res.StatusCode/100 != 4 && res.StatusCode != http.StatusNotImplemented {
			t.Errorf("%s %s: %d %s", target, copyOf, res.StatusCode, body)
		}
	}
	expectValue(t, app, e.bucket, "orders/1", "v")
	put(t, holder, e.bucket, "orders/1", "w")
	put(t, p.app(t, token(34)), e.bucket, "orders/1", "x")
	_, err = tryPut(t, holder, e.bucket, "orders/1", "y")
	refused(t, "a stale token", err, 412, "FenceTokenStale")
	expectValue(t, app, e.bucket, "orders/1", "x")
}

// A body that is forwarded is verified as any other.
func TestForwardVerifies(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.allowing(t)
	put(t, p.app(t), e.bucket, "free", "v")
	for i := range 15 { // what the store makes of half a body is a matter of time
		size := []int{0, 100, 4 << 20}[i%3]
		r := request{http.MethodPut, "/" + e.bucket + "/free", strings.Repeat("x", size), nil}.signHash(t, p.addr, appKey, appSecret, strings.Repeat("0", 64))
		if res, body := send(t, r); res.StatusCode != http.StatusBadRequest || code(body) != "XAmzContentSHA256Mismatch" {
			t.Errorf("%d bytes: %d %s", size, res.StatusCode, body)
		}
		expectValue(t, p.app(t), e.bucket, "free", "v")
	}
	conn := p.dial(t)
	conn.head(p, http.MethodPut, "/"+e.bucket+"/free", 4<<20, nil)
	if _, err := io.WriteString(conn, "half"); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	eventually(t, "the request has ended", func() bool { return gauge(t, p.metrics.inFlight) == 0 })
	expectValue(t, p.app(t), e.bucket, "free", "v")
}
