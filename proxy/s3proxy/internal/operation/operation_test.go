package operation

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// ask is a request as net/http's server has read it.
func ask(tb testing.TB, method, target string, header ...string) *http.Request {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), method, target, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func TestParse(t *testing.T) {
	t.Parallel()
	p := NewParser([]string{"s3.example", "deep.s3.example"})
	for line, want := range map[string]string{
		"GET /":                  "ListBuckets read",
		"GET /?x-id=ListBuckets": "ListBuckets read",
		"HEAD /b":                "HeadBucket read b",
		"PUT /b":                 "CreateBucket write b",
		"DELETE /b/":             "DeleteBucket write b",
		"GET /b?location":        "GetBucketLocation read b",
		"GET /b/?list-type=2&prefix=a/&max-keys=1": "ListObjectsV2 read b",
		"GET /b?prefix=a":                          "ListObjects read b",
		"GET /b?uploads":                           "ListMultipartUploads read b",
		"GET /b?versions":                          "ListObjectVersions read b",
		"POST /b?delete":                           "DeleteObjects write b",
		"POST /b":                                  "PostObject write b",
		"PUT /b?lifecycle":                         "PutBucketLifecycle write b",
		"GET /b?policyStatus":                      "GetBucketPolicyStatus read b",
		"GET /b/k":                                 "GetObject read b k",
		"GET /b/k?partNumber=1&response-expires=x": "GetObject read b k",
		"HEAD /b/k":                        "HeadObject read b k",
		"PUT /b/k":                         "PutObject write b k",
		"PUT /b/k x-amz-copy-source b/j":   "CopyObject write b k",
		"PUT /b/k?partNumber=1&uploadId=u": "UploadPart write b k",
		"PUT /b/k?partNumber=1&uploadId=u x-amz-copy-source b/j": "UploadPartCopy write b k",
		"DELETE /b/k":                       "DeleteObject write b k",
		"DELETE /b/k?uploadId=u":            "AbortMultipartUpload write b k",
		"POST /b/k?uploads":                 "CreateMultipartUpload write b k",
		"POST /b/k?uploadId=u":              "CompleteMultipartUpload write b k",
		"GET /b/k?uploadId=u&max-parts=2":   "ListParts read b k",
		"GET /b/k?tagging":                  "GetObjectTagging read b k",
		"PUT /b/k?tagging":                  "PutObjectTagging write b k",
		"DELETE /b/k?tagging":               "DeleteObjectTagging write b k",
		"GET /b/a%2Fb":                      "GetObject read b a/b",
		"GET /b/a+b%20c":                    "GetObject read b a+b c",
		"GET /b//a":                         "GetObject read b /a",
		"GET /b/a/../c":                     "GetObject read b a/../c",
		"GET /b/%2e%2e/c":                   "GetObject read b ../c",
		"GET /b/a%252Fb":                    "GetObject read b a%2Fb",
		"GET /a%2Fb/c":                      "GetObject read a/b c", // and no client has such a bucket
		"GET /b/k?X-Amz-Signature=1":        "GetObject read b k",
		"GET http://v.s3.example/k":         "GetObject read v k",
		"GET http://V.S3.Example:80/":       "ListObjects read v",
		"GET http://v.w.s3.example/k":       "GetObject read v.w k",
		"GET http://v.deep.s3.example/k":    "GetObject read v k",
		"GET http://s3.example/b/k":         "GetObject read b k",
		"GET http://vs3.example/b/k":        "GetObject read b k",
		"PUT /b/k?acl&tagging":              " read b k",
		"POST /b/k?uploads&uploadId=u":      " read b k",
		"PUT /b/k?uploadId=u":               " read b k",
		"GET /b/k?uploads":                  " read b k",
		"GET /b/k?unknown":                  " read b k",
		"GET /b?list-type=3":                " read b",
		"PATCH /b/k":                        " read b k",
		"GET /b?delete":                     " read b",
		"DELETE /b/k x-amz-copy-source a/b": " read b k",
	} {
		parts := strings.Split(line, " ")
		got, err := p.Parse(ask(t, parts[0], parts[1], parts[2:]...))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		text := strings.TrimSpace(strings.Join([]string{string(got.Name), got.Access.String(), got.Bucket, got.Key}, " "))
		if text != strings.TrimSpace(want) {
			t.Errorf("%s is %q, want %q", line, text, want)
		}
	}
	for line, want := range map[string]error{
		"GET //b/k": ErrPath, "GET /b/k?a=1&a=2": ErrQuery, "GET /b/k?a=%zz": ErrQuery, "GET /b/k?a;b": ErrQuery,
	} {
		method, target, _ := strings.Cut(line, " ")
		if _, err := p.Parse(ask(t, method, target)); err != want { //nolint:errorlint // it is no other
			t.Errorf("%s: %v, want %v", line, err, want)
		}
	}
	if _, err := p.Parse(&http.Request{Method: http.MethodOptions, URL: ask(t, http.MethodGet, "http://x").URL}); err != ErrPath { //nolint:errorlint // it is no other
		t.Errorf("no path: %v", err)
	}
}

// Two rows that the same request fits would hide one another.
func TestTable(t *testing.T) {
	t.Parallel()
	seen := map[Name]bool{}
	for _, o := range newTable() {
		if seen[o.Name] {
			t.Errorf("%s is there twice", o.Name)
		}
		seen[o.Name] = true
		target := "/"
		if o.Scope != Service {
			target = "/b"
		}
		if o.Scope == Object {
			target = "/b/k"
		}
		r := ask(t, o.method, target+"?"+strings.Join(o.needs, "&"))
		if o.copies {
			r.Header.Set("X-Amz-Copy-Source", "b/j")
		}
		if got, err := NewParser(nil).Parse(r); err != nil || got.Name != o.Name {
			t.Errorf("a request for %s is %s, %v", o.Name, got.Name, err)
		}
		reads := slices.Contains([]string{http.MethodGet, http.MethodHead}, o.method) || o.Name == "SelectObjectContent"
		if reads != (o.Access == Read) {
			t.Errorf("%s is a %s", o.Name, o.Access)
		}
	}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	put, err := NewParser(nil).Parse(ask(t, http.MethodPut, "/b/k"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"x-amz-meta-anything": false, "x-amz-date": false, "x-amz-storage-class": false, "content-type": false, "amz-sdk-request": false, "x-amzn-trace-id": false,
		"x-amz-write-offset-bytes": true, "x-amz-object-lock-mode": true, "x-amz-copy-source-if-match": true, "x-amz-metadata-directive": true, "x-amz-unknown": true,
	} {
		h := http.Header{}
		h.Set(name, "v")
		if got, foreign := put.Foreign(h); foreign != want || foreign && got != name {
			t.Errorf("%s: %q, %v", name, got, foreign)
		}
	}
}

// minio-go names the algorithm with every part, not only with the upload.
func TestForeignOfPart(t *testing.T) {
	t.Parallel()
	part, err := NewParser(nil).Parse(ask(t, http.MethodPut, "/b/k?partNumber=1&uploadId=u"))
	if err != nil {
		t.Fatal(err)
	}
	if name, foreign := part.Foreign(http.Header{"X-Amz-Checksum-Algorithm": {"CRC32C"}}); foreign {
		t.Errorf("%s is foreign", name)
	}
}

func TestSource(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Source{
		"b/k": {"b", "k", ""}, "/b/k": {"b", "k", ""}, "b/a/k": {"b", "a/k", ""}, "b%2Fk": {"b", "k", ""}, "/b/a%20b+c%2Bd": {"b", "a b c+d", ""},
		"b/k?versionId=1": {"b", "k", "1"}, "b/k%3FversionId=1": {"b", "k?versionId=1", ""}, "b//k": {"b", "/k", ""}, "b/..%2Fk": {"b", "../k", ""},
		"b/a%252Fb": {"b", "a%2Fb", ""},
	} {
		if got, err := ParseSource(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "/", "b", "/b", "b/", "//k", "b/%zz", "b/k?versionId=%zz"} {
		if got, err := ParseSource(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"/b/k?uploadId=1", "/b/%2e%2e/k", "//", "/b?acl", "/%zz", "/b/k?a=%zz"} {
		f.Add("GET", seed, "b.s3.example", "b/k?versionId=1")
	}
	p := NewParser([]string{"s3.example"})
	f.Fuzz(func(t *testing.T, method, target, host, source string) {
		u, err := ask(t, http.MethodGet, "/").URL.Parse(target)
		if err != nil {
			return
		}
		r := &http.Request{Method: method, URL: u, Host: host, Header: http.Header{"X-Amz-Copy-Source": {source}}}
		got, err := p.Parse(r)
		if err != nil && got.Name != "" {
			t.Errorf("an operation in spite of %v", err)
		}
		if got.Name != "" && (got.Scope == Object) != (got.Key != "") {
			t.Errorf("%s of key %q", got.Name, got.Key)
		}
		_, _ = ParseSource(source)
	})
}
