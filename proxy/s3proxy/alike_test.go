package s3proxy

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// What a client gets through the proxy, with a token that is current, is what it
// gets past it: the same objects, stored by the same requests, are read by the
// same requests (I7).
func TestAlike(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	straight := newEnv(t) // on the same store, and not fenced
	carrying := map[string]string{"X-Amz-Security-Token": text(t, token(33))}
	both := func(name, method, key, body string, header map[string]string) {
		t.Helper()
		ours, theirs := header, header
		if strings.Contains(strings.Join(slices.Collect(maps.Values(header)), ""), "{") {
			stat, _ := p.do(t, http.MethodHead, "/"+e.bucket+key, "", carrying)
			ours = filled(header, stat)
			stat, _ = straight.direct(t, http.MethodHead, "/"+straight.bucket+key, "", nil)
			theirs = filled(header, stat)
		}
		got, gotBody := p.do(t, method, "/"+e.bucket+key, body, with(carrying, ours))
		want, wantBody := straight.direct(t, method, "/"+straight.bucket+key, body, theirs)
		if diff := compare(got, gotBody, want, wantBody); diff != "" {
			t.Errorf("%s: %s %s: %s", name, method, key, diff)
		}
	}
	body := strings.Repeat("0123456789", 30)
	for key, header := range objects() {
		both("stored", http.MethodPut, key, body, header)
	}
	both("stored", http.MethodPut, "/empty", "", nil)
	for _, key := range []string{"/bare", "/typed", "/dressed", "/empty", "/absent"} {
		for name, header := range reads() {
			both(name, http.MethodGet, key, "", header)
			if name != "not modified" { // versitygw heeds If-Modified-Since in a GET only
				both(name, http.MethodHead, key, "", header)
			}
		}
	}
	both("override", http.MethodGet, "/dressed?response-content-type=a/b&response-cache-control=c&response-content-disposition=d&response-content-encoding=e&response-content-language=f&response-expires=g", "", nil)
	copied := func(e *env) map[string]string {
		return map[string]string{"x-amz-copy-source": "/" + e.bucket + "/dressed"}
	}
	if got, body := p.do(t, http.MethodPut, "/"+e.bucket+"/copy", "", with(carrying, copied(e))); got.StatusCode != http.StatusOK {
		t.Errorf("copy: %s %s", got.Status, body)
	}
	if got, body := straight.direct(t, http.MethodPut, "/"+straight.bucket+"/copy", "", copied(straight)); got.StatusCode != http.StatusOK {
		t.Errorf("copy straight: %s %s", got.Status, body)
	}
	both("copied", http.MethodGet, "/copy", "", nil)
	both("part", http.MethodGet, "/bare?partNumber=1", "", nil)
	both("part of nothing", http.MethodGet, "/empty?partNumber=1", "", nil)
	both("part of nothing", http.MethodHead, "/empty?partNumber=1", "", nil)
	both("x-id", http.MethodGet, "/bare?x-id=GetObject", "", nil)
	for name, header := range writes() {
		both(name, http.MethodPut, "/bare", "new", header)
		if name != "if-match" { // there is no ETag yet
			both(name, http.MethodPut, "/new "+name, "new", header)
		}
		both(name, http.MethodPut, "/bare", body, nil)
	}
	for _, key := range []string{"/bare", "/absent", "/bare"} {
		both("delete", http.MethodDelete, key, "", nil)
		both("deleted", http.MethodGet, key, "", nil)
		both("deleted", http.MethodHead, key, "", nil)
	}
}

func with(maps_ ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range maps_ {
		maps.Copy(all, m)
	}
	return all
}

// filled puts what an answer has said of an object into the conditions of a
// header.
func filled(header map[string]string, r *http.Response) map[string]string {
	header = with(header)
	for name, value := range header {
		value = strings.ReplaceAll(value, "{etag}", strings.Trim(r.Header.Get("ETag"), `"`))
		header[name] = strings.ReplaceAll(value, "{modified}", r.Header.Get("Last-Modified"))
	}
	return header
}

func objects() map[string]map[string]string {
	return map[string]map[string]string{
		"/bare":  nil,
		"/typed": {"Content-Type": "text/plain; charset=utf-8"},
		"/dressed": {
			"Content-Type": "a/b", "Content-Encoding": "gzip", "Content-Language": "de", "Content-Disposition": `attachment; filename="x"`,
			"Cache-Control": "no-store", "Expires": "Wed, 01 Dec 2094 16:00:00 GMT",
			"x-amz-meta-Color": "blue", "x-amz-meta-a-b": "1, 2", "x-amz-meta-umlaut": "=?UTF-8?B?w5xiZXI=?=", "x-amz-meta-q": "=?utf-8?q?=C3=9Cber?=",
			"x-amz-meta-needless": "=?UTF-8?Q?plain?=", "x-amz-meta-line": "=?UTF-8?B?YQpi?=", "x-amz-tagging": "a=b&c=d%20e", "x-amz-acl": "private",
		},
	}
}

func reads() map[string]map[string]string {
	const past, future = "Thu, 01 Dec 1994 16:00:00 GMT", "Wed, 01 Dec 2094 16:00:00 GMT"
	m := map[string]map[string]string{
		"all":      nil,
		"if-match": {"If-Match": `"{etag}"`}, "if-match bare": {"If-Match": "{etag}"}, "if-match *": {"If-Match": "*"},
		"if-match wrong": {"If-Match": `"00000000000000000000000000000000"`},
		"if-none-match":  {"If-None-Match": `"{etag}"`}, "if-none-match wrong": {"If-None-Match": `"00000000000000000000000000000000"`},
		"modified": {"If-Modified-Since": past}, "not modified": {"If-Modified-Since": "{modified}"},
		"unmodified": {"If-Unmodified-Since": future}, "not unmodified": {"If-Unmodified-Since": past},
		"if-match beats unmodified":    {"If-Match": "{etag}", "If-Unmodified-Since": past},
		"if-match * beats unmodified":  {"If-Match": "*", "If-Unmodified-Since": past},
		"if-none-match beats modified": {"If-None-Match": "x", "If-Modified-Since": future},
		"range with condition":         {"Range": "bytes=5-9", "If-Match": "{etag}"},
		"range with wrong condition":   {"Range": "bytes=5-9", "If-Match": "x"},
		"range not modified":           {"Range": "bytes=5-9", "If-None-Match": "{etag}"},
	}
	for _, r := range []string{
		"bytes=0-0", "bytes=0-9", "bytes=5-9", "bytes=299-299", "bytes=0-299", "bytes=0-300", "bytes=200-9999", "bytes=0-", "bytes=64-", "bytes=299-",
		"bytes=300-", "bytes=300-400", "bytes=9999-", "bytes=-1", "bytes=-64", "bytes=-300", "bytes=-301", "bytes=-9999", "bytes=0-9223372036854775807",
	} {
		m[r] = map[string]string{"Range": r}
	}
	return m
}

func writes() map[string]map[string]string {
	return map[string]map[string]string{
		"if-match":       {"If-Match": `"{etag}"`},
		"if-match wrong": {"If-Match": `"00000000000000000000000000000000"`},
		"if-none-match":  {"If-None-Match": "*"},
		"md5":            {"Content-MD5": "IsngpKEqW6FRUeVuX18AdQ=="},
		"md5 wrong":      {"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="},
		"crc32":          {"x-amz-checksum-crc32": "2sSpfA==", "x-amz-sdk-checksum-algorithm": "CRC32"},
	}
}

// compare tells how two answers differ in what a client can see, but for what
// differs between any two.
func compare(got *http.Response, gotBody string, want *http.Response, wantBody string) string {
	var b strings.Builder
	if got.StatusCode != want.StatusCode {
		b.WriteString("status " + got.Status + ", not " + want.Status + "; ")
	}
	if got.StatusCode >= http.StatusMultipleChoices {
		if g, w := code(gotBody), code(wantBody); g != w {
			b.WriteString("code " + g + ", not " + w + "; ")
		}
		return b.String()
	}
	if gotBody != wantBody {
		b.WriteString("body " + gotBody + ", not " + wantBody + "; ")
	}
	names := slices.Collect(maps.Keys(got.Header))
	names = slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(names, maps.Keys(want.Header)))))
	for _, name := range names {
		g, w := strings.Join(got.Header[name], "|"), strings.Join(want.Header[name], "|")
		switch name {
		case "Date", "X-Amz-Request-Id", "X-Amz-Id-2", "Server", "Connection", "Last-Modified", "X-Amz-Version-Id", "X-Amz-Checksum-Crc64nvme", "X-Amz-Checksum-Type", "X-Amz-Object-Size":
			continue
		case "Etag":
			w = strings.TrimSuffix(w, `"`) + `-0"`
			if len(g) == len(w) {
				continue
			}
		}
		if g != w {
			b.WriteString(name + " " + g + ", not " + w + "; ")
		}
	}
	return b.String()
}

// code is S3's in the XML of an error.
func code(body string) string {
	_, rest, _ := strings.Cut(body, "<Code>")
	code, _, _ := strings.Cut(rest, "<")
	return code
}
