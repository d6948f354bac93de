package header

import (
	"math"
	"net/http"
	"net/url"
	"reflect"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

func TestParseRange(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		r            Range
		there, empty bool
	}{
		"":                             {},
		"bytes=0-0":                    {Range{0, 1}, true, false},
		"bytes=5-9":                    {Range{5, 5}, true, false},
		"bytes=5-":                     {Range{5, 0}, true, false},
		"bytes=0-":                     {Range{0, 0}, true, false},
		"bytes=-5":                     {Range{-5, 0}, true, false},
		"bytes=-0":                     {Range{0, 0}, true, true},
		"bytes= 5-9 ":                  {Range{5, 5}, true, false},
		"bytes=9-5":                    {},
		"bytes=a-5":                    {},
		"bytes=5-a":                    {},
		"bytes=-a":                     {},
		"bytes=-":                      {},
		"bytes=+5-9":                   {},
		"bytes=--5":                    {},
		"bytes=0-1,3-4":                {},
		"octets=0-1":                   {},
		"bytes 0-1":                    {},
		"bytes=0-9223372036854775807":  {Range{0, 0}, true, false},
		"bytes=0-99999999999999999999": {Range{0, 0}, true, false},
		"bytes=1-99999999999999999999": {Range{1, math.MaxInt64}, true, false},
		"bytes=99999999999999999999-":  {Range{math.MaxInt64, 0}, true, false},
		"bytes=-99999999999999999999":  {Range{-math.MaxInt64, 0}, true, false},
		"bytes=99999999999999999999-99999999999999999999": {Range{math.MaxInt64, 1}, true, false},
	} {
		r, there, empty := ParseRange(text)
		if r != want.r || there != want.there || empty != want.empty {
			t.Errorf("%q: %+v, %v, %v, want %+v", text, r, there, empty, want)
		}
	}
}

func FuzzParseRange(f *testing.F) {
	f.Add("bytes=0-1")
	f.Add("bytes=-9223372036854775808")
	f.Fuzz(func(t *testing.T, text string) {
		r, there, empty := ParseRange(text)
		if r.Length < 0 || r.Offset < 0 && r.Length != 0 || empty && !there || !there && r != (Range{}) {
			t.Errorf("%q: %+v, %v, %v", text, r, there, empty)
		}
	})
}

func TestPutOptions(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	for name, value := range map[string]string{
		"Content-Type": "a/b", "Content-Encoding": "aws-chunked, gzip", "Content-Language": "de", "Content-Disposition": "inline", "Cache-Control": "no-store",
		"Expires": "Wed, 01 Dec 2094 16:00:00 GMT", "x-amz-storage-class": "STANDARD_IA", "x-amz-tagging": "a=b&c=d%20e", "x-amz-acl": "bucket-owner-full-control",
		"x-amz-meta-color": "blue", "x-amz-meta-fence-token": "ft1:x:1:::r", "x-amz-server-side-encryption": "AES256",
	} {
		h.Set(name, value)
	}
	h.Add("Content-Encoding", "br")
	h.Add("Content-Language", "en")
	h.Add("Cache-Control", "private")
	o, err := PutOptions(h)
	if err != nil {
		t.Fatal(err)
	}
	if o.ContentType != "a/b" || o.ContentEncoding != "gzip,br" || o.ContentLanguage != "de,en" || o.ContentDisposition != "inline" || o.CacheControl != "no-store,private" ||
		o.ExpiresText != "Wed, 01 Dec 2094 16:00:00 GMT" || o.StorageClass != "STANDARD_IA" || o.ServerSideEncryption == nil {
		t.Errorf("%+v", o)
	}
	if !reflect.DeepEqual(o.UserMetadata, map[string]string{"x-amz-meta-color": "blue"}) || !reflect.DeepEqual(o.UserTags, map[string]string{"a": "b", "c": "d e"}) {
		t.Errorf("metadata %v, tags %v", o.UserMetadata, o.UserTags)
	}
	if o, err := PutOptions(http.Header{"Expires": {"0"}}); err != nil || o.ExpiresText != "0" { // S3 stores it
		t.Errorf("an Expires that is no date: %+v, %v", o, err)
	}
	if o, err := PutOptions(http.Header{}); err != nil || o.ContentType != "binary/octet-stream" {
		t.Errorf("nothing: %+v, %v", o, err)
	}
	for name, value := range map[string]string{
		"x-amz-acl": "public-read", "x-amz-tagging": "a=%zz", "X-Amz-Tagging": "a=1&a=2", "x-amz-server-side-encryption": "aws:kms:dsse",
		"x-amz-server-side-encryption-aws-kms-key-id": "k", "x-amz-meta-large": string(make([]byte, 2050)),
	} {
		h := http.Header{}
		h.Set(name, value)
		if o, err := PutOptions(h); err == nil {
			t.Errorf("%s: %.20s: %+v", name, value, o)
		}
	}
	kms := http.Header{"X-Amz-Server-Side-Encryption": {"aws:kms"}, "X-Amz-Server-Side-Encryption-Context": {"eyJhIjoiYiJ9"}, "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": {"k"}}
	if o, err := PutOptions(kms); err != nil || o.ServerSideEncryption == nil {
		t.Errorf("KMS: %+v, %v", o, err)
	}
	kms.Set("X-Amz-Server-Side-Encryption-Context", "e30")
	if _, err := PutOptions(kms); err == nil {
		t.Error("a context that is no JSON in Base64 was taken")
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	Describe(h, &minio.ObjectInfo{
		ContentType: "a/b", LastModified: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), UserTagCount: 2, VersionID: "v",
		Metadata: http.Header{"X-Amz-Meta-A-B": {"c"}, "X-Amz-Meta-U": {"Über"}, "X-Minio-Meta-X": {"y"}, "Content-Encoding": {"aws-chunked"}, "Cache-Control": {"c"}, "Expires": {"0"}},
	})
	want := http.Header{
		"x-amz-meta-a-b": {"c"}, "x-amz-meta-u": {"=?UTF-8?B?w5xiZXI=?="}, "Cache-Control": {"c"}, "Expires": {"0"}, "Content-Type": {"a/b"}, "Accept-Ranges": {"bytes"},
		"Last-Modified": {"Fri, 02 Jan 2026 03:04:05 GMT"}, "X-Amz-Tagging-Count": {"2"}, "X-Amz-Version-Id": {"v"},
	}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("%v", h)
	}
	Override(h, url.Values{"response-content-type": {"x"}, "response-cache-control": {""}, "response-unknown": {"y"}})
	if h.Get("Content-Type") != "x" || h.Get("Cache-Control") != "" || len(h) != len(want) {
		t.Errorf("%v", h)
	}
}
