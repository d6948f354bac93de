package operation

import (
	"net/url"
	"strings"
	"testing"
)

// What the table does not have is named by S3's own words, and by nothing else that the
// client has sent.
func TestUnknown(t *testing.T) {
	t.Parallel()
	p := NewParser(nil)
	every := url.Values{}
	for name := range p.names() {
		every.Set(name, "s3cret")
	}
	for line, want := range map[string]string{
		"PATCH /b/k?acl=s3cret":                      "The method PATCH",
		strings.Repeat("X", 17) + " /b":              "The method",
		"POST /":                                     "POST of the list of buckets",
		"POST /b/k":                                  "POST of an object",
		"POST /b/k?X-Amz-Signature=s3cret":           "POST of an object",
		"GET /b?list-type=s3cret":                    "GET of a bucket with the query parameter list-type",
		"PUT /b/k?tagging&acl":                       "PUT of an object with the query parameters acl, tagging",
		"GET /b/k?s3cret":                            "GET of an object with a query parameter that S3 does not have",
		"GET /b/k?s3cret&acl":                        "GET of an object with the query parameters acl, one that S3 does not have",
		"DELETE /b/k x-amz-copy-source a/s3cret":     "DELETE of an object with the header x-amz-copy-source",
		"DELETE /b/k?acl x-amz-copy-source a/s3cret": "DELETE of an object with the query parameter acl and the header x-amz-copy-source",
		"PUT /b/k?X-Amz-Copy-Source=s3cret":          "PUT of an object with the query parameter x-amz-copy-source",
		"GET /b?" + every.Encode():                   "GET of a bucket with the query parameters abac, accelerate, acl, analytics, attributes, bucket-region, continuation-token, cors, 55 more",
	} {
		parts := strings.Split(line, " ")
		r := ask(t, parts[0], parts[1], parts[2:]...)
		target, err := p.Parse(r)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if got := p.Unknown(r, &target); got != want {
			t.Errorf("%s is %q, want %q", line, got, want)
		}
	}
}
