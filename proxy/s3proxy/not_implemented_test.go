package s3proxy

import (
	"net/http"
	"strings"
	"testing"
)

// Who asks for what is not done is told what it is, and a value of the query is not said again.
func TestNotImplementedIsNamed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	at := "/" + e.bucket
	for target, what := range map[string]string{
		"PUT " + at + "?lifecycle":                             "PutBucketLifecycle",
		"DELETE " + at:                                         "DeleteBucket",
		"PUT " + at + "/k?acl":                                 "PutObjectAcl",
		"PATCH " + at + "/k":                                   "The method PATCH",
		"POST " + at + "/k":                                    "POST of an object",
		"GET " + at + "?list-type=s3cret":                      "GET of a bucket with the query parameter list-type",
		"PUT " + at + "/k?acl=s3cret&tagging=s3cret":           "PUT of an object with the query parameters acl, tagging",
		"GET " + at + "/k?s3cret=s3cret":                       "GET of an object with a query parameter that S3 does not have",
		"PUT " + at + "/k?x-amz-copy-source=" + at + "/s3cret": "PUT of an object with the query parameter x-amz-copy-source",
	} {
		method, rest, _ := strings.Cut(target, " ")
		res, body := p.do(t, method, rest, "", map[string]string{"X-Amz-Security-Token": text(t, token(33))})
		message, _, _ := strings.Cut(body, "</Message>")
		if res.StatusCode != http.StatusNotImplemented || !strings.HasSuffix(message, "<Message>"+what+" is not implemented by the proxy.") {
			t.Errorf("%s: %d %s", target, res.StatusCode, body)
		}
	}
}
