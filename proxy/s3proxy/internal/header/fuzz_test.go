package header

import (
	"math"
	"net/http"
	"net/url"
	"reflect"
	"testing"
)

// FuzzTags: tags that are taken are those that S3 lets an object have, and stay
// the same when they are written and read again.
func FuzzTags(f *testing.F) {
	for _, seed := range []string{"", "a=b", "a=b&c=d%20e", "a", "a=b&a=c", "=", "a=%zz", "a;b=c", "a=b+c", "%C3%A4=b", "1=&2=&3=&4=&5=&6=&7=&8=&9=&10=&11="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tags, err := Tags(text)
		if err != nil {
			return
		}
		if len(tags) > maxTags {
			t.Errorf("%q: %d tags", text, len(tags))
		}
		values := url.Values{}
		for name, value := range tags {
			if name == "" || len(name) > 128 || len(value) > 256 {
				t.Errorf("%q: %q=%q", text, name, value)
			}
			values.Set(name, value)
		}
		again, err := Tags(values.Encode())
		if err != nil || len(tags) > 0 && !reflect.DeepEqual(again, tags) {
			t.Errorf("%q: %q became %q, %v", text, tags, again, err)
		}
	})
}

// FuzzHeaders: what a request says beside its body is read, or refused.
func FuzzHeaders(f *testing.F) {
	f.Add("bytes=0-1", "Mon, 02 Jan 2006 15:04:05 GMT", "aws-chunked,gzip", "aws:kms", "e30=", "private")
	f.Add("bytes=9223372036854775807-9223372036854775807", "x", ",", "AES256", "", "public-read")
	f.Add("bytes=1-0", "", "gzip", "aws:kms", "bm8=", "")
	f.Fuzz(func(t *testing.T, span, date, encoding, method, context, acl string) {
		h := http.Header{
			"X-Amz-Copy-Source-Range": {span}, "X-Amz-Copy-Source-If-Modified-Since": {date}, "Expires": {date}, "Content-Encoding": {encoding},
			"X-Amz-Server-Side-Encryption": {method}, "X-Amz-Server-Side-Encryption-Context": {context}, "X-Amz-Acl": {acl}, "X-Amz-Meta-A": {span},
		}
		if r, err := CopyRange(h); err == nil && span != "" && (r.Offset < 0 || r.Length < 1 || r.Offset > math.MaxInt64-r.Length) {
			t.Errorf("%q: %+v", span, r)
		}
		if o, err := CopyConditions(h); err == nil && date != "" && o.IfModifiedSince.IsZero() {
			t.Errorf("%q: a condition that is passed over", date)
		}
		if o, err := PutOptions(h); err == nil {
			switch {
			case acl != "" && acl != "private" && acl != "bucket-owner-full-control":
				t.Errorf("acl %q", acl)
			case (o.ServerSideEncryption != nil) != (method != "" || context != ""):
				t.Errorf("encryption %q, %q: %v", method, context, o.ServerSideEncryption)
			case o.ExpiresText != date:
				t.Errorf("expires %q", date)
			case WithoutChunked(o.ContentEncoding) != o.ContentEncoding:
				t.Errorf("encoding %q became %q", encoding, o.ContentEncoding)
			}
		}
	})
}
