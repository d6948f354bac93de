package s3proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

// What a refused token cannot do, by any operation that writes, it has not done.
func TestRefusedTokens(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	current := p.app(t, token(34))
	put(t, current, e.bucket, "k", "by 34")
	foreign, twin := token(35), token(34)
	foreign.Issuer, twin.Holder = "j", "other"
	for name, c := range map[string]struct {
		session string
		status  int
		code    string
		reads   bool // they are answered
	}{
		"stale":     {text(t, token(33)), 412, "FenceTokenStale", false},
		"duplicate": {text(t, twin), 412, "FenceTokenDuplicate", false},
		"foreign":   {text(t, foreign), 412, "FenceTokenForeign", false},
		"none":      {"", 403, "FenceTokenMissing", true},
		"malformed": {"ft1:x:034:h:i:orders", 400, "FenceTokenMalformed", false},
		"not ours":  {"FwoGZXIvYXdzEJr//////////wEaDExample", 400, "FenceTokenMalformed", false},
	} {
		client := p.session(t, appKey, appSecret, c.session)
		_, err := tryPut(t, client, e.bucket, "k", "by a refused token")
		refused(t, name+": put", err, c.status, c.code)
		_, err = tryPut(t, client, e.bucket, "new "+name, "by a refused token")
		refused(t, name+": put of a new key", err, c.status, c.code)
		err = client.RemoveObject(t.Context(), e.bucket, "k", minio.RemoveObjectOptions{})
		refused(t, name+": delete", err, c.status, c.code)
		if got, err := get(t, client, e.bucket, "k", minio.GetObjectOptions{}); c.reads {
			if err != nil || got != "by 34" {
				t.Errorf("%s: get: %q, %v", name, got, err)
			}
		} else {
			refused(t, name+": get", err, c.status, c.code)
		}
		_, err = get(t, current, e.bucket, "new "+name, minio.GetObjectOptions{})
		refused(t, name+": the new key", err, 404, "NoSuchKey")
	}
	expectValue(t, current, e.bucket, "k", "by 34")
	if n := counted(t, p.metrics.refusals.WithLabelValues("stale token", "orders")); n != 4 {
		t.Errorf("%v refusals of stale tokens were counted, want 4", n)
	}
	if n := counted(t, p.metrics.claims.WithLabelValues("ok")); n != 1 {
		t.Errorf("%v claims were counted, want 1", n)
	}
}

func TestSharedTokenReads(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	put(t, p.app(t, token(34)), e.bucket, "k", "v")
	shared := token(35)
	shared.Mode = guard.Shared
	reader := p.app(t, shared)
	expectValue(t, reader, e.bucket, "k", "v")
	_, err := tryPut(t, reader, e.bucket, "k", "w")
	refused(t, "put", err, 403, "FenceTokenReadOnly")
	expectValue(t, reader, e.bucket, "k", "v")
}

// A token counts only if the signature covers it, and if all places agree.
func TestCarriers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	at, current, other := "/"+e.bucket+"/k", text(t, token(34)), text(t, token(35))
	for name, c := range map[string]struct {
		header map[string]string
		after  map[string]string // added behind the signature
		status int
		code   string
	}{
		"session token":             {map[string]string{carrier.S3SessionToken: current}, nil, 200, ""},
		"header":                    {map[string]string{carrier.Header: current}, nil, 200, ""},
		"metadata":                  {map[string]string{carrier.S3Metadata: current}, nil, 200, ""},
		"all three":                 {map[string]string{carrier.S3SessionToken: current, carrier.Header: current, carrier.S3Metadata: current}, nil, 200, ""},
		"disagree":                  {map[string]string{carrier.S3SessionToken: current, carrier.Header: other}, nil, 400, "FenceTokenMalformed"},
		"header not signed":         {nil, map[string]string{carrier.Header: current}, 400, "FenceTokenMalformed"},
		"metadata not signed":       {nil, map[string]string{carrier.S3Metadata: current}, 403, "AccessDenied"},
		"session token not signed":  {nil, map[string]string{carrier.S3SessionToken: current}, 403, "AccessDenied"},
		"header not signed, beside": {map[string]string{carrier.S3SessionToken: current}, map[string]string{carrier.Header: current}, 400, "FenceTokenMalformed"},
		"metadata changed":          {map[string]string{carrier.S3Metadata: current}, map[string]string{carrier.S3Metadata: other}, 403, "SignatureDoesNotMatch"},
	} {
		r := request{http.MethodPut, at, "v", c.header}.sign(t, p.addr, appKey, appSecret)
		for name, value := range c.after {
			r.Header.Set(name, value)
		}
		res, body := send(t, r)
		if res.StatusCode != c.status || code(body) != c.code {
			t.Errorf("%s: %d %s, want %d %s", name, res.StatusCode, body, c.status, c.code)
		}
	}
	r := request{http.MethodPut, at, "v", map[string]string{carrier.Header: current}}.sign(t, p.addr, appKey, appSecret)
	r.Header[carrier.Header] = []string{current, current}
	if res, body := send(t, r); res.StatusCode/100 != 4 {
		t.Errorf("sent twice: %d %s", res.StatusCode, body)
	}
	stat, err := e.bare.StatObject(t.Context(), e.bucket, "k", minio.StatObjectOptions{})
	if err != nil || len(stat.UserMetadata) != 0 {
		t.Errorf("stored with metadata %v, %v: the token is nobody's to keep", stat.UserMetadata, err)
	}
}

// Of several tokens the one of the key's resource counts.
func TestSeveralTokens(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	c := e.config()
	c.Resources = []Resource{{e.bucket + "/orders/", "orders"}, {e.bucket + "/parts/", "parts"}}
	p := start(t, c)
	orders, parts := token(33), token(7)
	parts.Resource = "parts"
	both := p.app(t, orders, parts)
	put(t, both, e.bucket, "orders/1", "o")
	put(t, both, e.bucket, "parts/1", "p")
	_, err := tryPut(t, both, e.bucket, "free", "f")
	refused(t, "a key of neither", err, 403, "FenceTokenMissing")
	_, err = tryPut(t, p.app(t, parts), e.bucket, "orders/1", "p")
	refused(t, "the other's token", err, 403, "FenceTokenMissing")
	put(t, p.app(t, parts), e.bucket, "free", "f")
	put(t, p.app(t, token(34)), e.bucket, "orders/1", "o2")
	_, err = tryPut(t, both, e.bucket, "orders/1", "o3")
	refused(t, "one of two is stale", err, 412, "FenceTokenStale")
	put(t, both, e.bucket, "parts/1", "p2")
	for key, want := range map[string]string{"orders/1": "o2", "parts/1": "p2", "free": "f"} {
		expectValue(t, p.app(t), e.bucket, key, want)
	}
}

// A presigned URL carries its token, which is looked at when it is used.
func TestPresigned(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	c := p.app(t, token(33))
	put(t, c, e.bucket, "k", "v")
	getURL, err := c.PresignedGetObject(t.Context(), e.bucket, "k", 1e12, nil)
	if err != nil {
		t.Fatal(err)
	}
	putURL, err := c.PresignedPutObject(t.Context(), e.bucket, "k", 1e12)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, url, body string, status int, want string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if res, got := send(t, r); res.StatusCode != status || code(got) != want {
			t.Errorf("%s: %d %s, want %d %s", method, res.StatusCode, got, status, want)
		}
	}
	ask(http.MethodPut, putURL.String(), "w", 200, "")
	ask(http.MethodGet, getURL.String(), "", 200, "")
	ask(http.MethodPut, strings.Replace(putURL.String(), "%3A33%3A", "%3A99%3A", 1), "w", 403, "SignatureDoesNotMatch")
	ask(http.MethodPut, putURL.String()+"&x-amz-meta-a=b", "w", 403, "SignatureDoesNotMatch")
	put(t, p.app(t, token(34)), e.bucket, "k", "x")
	ask(http.MethodPut, putURL.String(), "y", 412, "FenceTokenStale")
	ask(http.MethodGet, getURL.String(), "", 412, "FenceTokenStale")
	expectValue(t, p.app(t, token(34)), e.bucket, "k", "x")
}

func TestUntokenedDeny(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	c := e.config()
	c.Untokened = Deny
	p := start(t, c)
	put(t, p.app(t, token(33)), e.bucket, "k", "v")
	bare := p.app(t)
	_, err := tryPut(t, bare, e.bucket, "k", "w")
	refused(t, "put", err, 403, "FenceTokenMissing")
	_, err = get(t, bare, e.bucket, "k", minio.GetObjectOptions{})
	refused(t, "get", err, 403, "FenceTokenMissing")
	for _, target := range []string{"/", "/" + e.bucket, "/" + e.bucket + "?location"} {
		if res, body := p.do(t, http.MethodGet, target, "", nil); code(body) != "FenceTokenMissing" {
			t.Errorf("GET %s: %d %s", target, res.StatusCode, body)
		}
	}
	expectValue(t, p.app(t, token(33)), e.bucket, "k", "v")
}

// Two proxies on one bucket know nothing of each other: what an older writer
// sends through one, after a newer one has written through the other, is refused
// (I1); and the newer one is not (I3).
func TestTwoProxies(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first, second := e.start(t), e.start(t)
	older, newer := first.app(t, token(33)), second.app(t, token(34))
	for i := range 5 {
		key := fmt.Sprint("k", i)
		put(t, older, e.bucket, key, "by 33") // and the first proxy knows its state
	}
	for i := range 5 {
		key := fmt.Sprint("k", i)
		put(t, newer, e.bucket, key, "by 34")
		_, err := tryPut(t, older, e.bucket, key, "by 33, late")
		refused(t, "put", err, 412, "FenceTokenStale")
		err = older.RemoveObject(t.Context(), e.bucket, key, minio.RemoveObjectOptions{})
		refused(t, "delete", err, 412, "FenceTokenStale")
		expectValue(t, newer, e.bucket, key, "by 34")
		put(t, newer, e.bucket, key, "by 34 again")
	}
	if err := newer.RemoveObject(t.Context(), e.bucket, "k0", minio.RemoveObjectOptions{}); err != nil {
		t.Error(err)
	}
	_, err := tryPut(t, older, e.bucket, "k0", "by 33, late")
	refused(t, "put where nothing is", err, 412, "FenceTokenStale")
}

// One holder may write the same key through two proxies at once: each write is
// answered by what became of it, and never as stale.
func TestOneHolderTwoProxies(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	clients := []minio.Core{e.start(t).app(t, token(33)), e.start(t).app(t, token(33))}
	errs := make(chan error)
	for i := range 8 {
		go func() {
			for n := range 10 {
				body := strings.Repeat(fmt.Sprint(i, n), 10)
				_, err := clients[i%2].PutObject(t.Context(), e.bucket, "k", strings.NewReader(body), int64(len(body)), "", "", minio.PutObjectOptions{})
				if r := minio.ToErrorResponse(err); err != nil && r.StatusCode != http.StatusServiceUnavailable {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
