package sigv4

import (
	"strings"
	"testing"
)

// awkward are paths with which re-signing proxies and gateways went wrong.
var awkward = []string{
	"/b/a=b", "/b/a%3Db", "/b/a:b", "/b/a%3Ab", "/b/a%2Fb", "/b/a%252Fb", "/b/a%20b", "/b/a+b", "/b/a%2Bb", "/b/%C3%BC~", "/b/%c3%bc%7e",
	"/b//a", "/b/a//", "/b/./a", "/b/../a", "/b/%2e%2e/a", "/b/a%00", "/b/a?", "/b/a%3F", "/b/!*'();:@&=+$,[]", "/", "//", "/b/a%0Ab", "/b/\xfc", "/b/%FC",
}

var sumNames = []string{"host", "x-amz-content-sha256", "x-amz-date"}

// headError verifies the head of a request without a body.
func headError(t *testing.T, head string) error {
	t.Helper()
	_, err := at(exampleTime()).Verify(request(t, head, strings.NewReader("")))
	return err
}

// TestKeys verifies awkward keys: row 20 of the public reports
// (aws-sigv4-proxy#176 and #246, Kriechi#3, source.coop#180, iron-proxy#220). A
// client encodes a key as it likes, and signs the canonical path or the one that
// it sends.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, path := range awkward {
		line := "GET " + path + " HTTP/1.1\nHost: s3.example"
		for _, asIs := range []bool{false, true} {
			s := scribe{asIs: asIs}
			for _, head := range []string{s.header(line+"\nx-amz-content-sha256: "+unsignedSum, sumNames...), s.query(line, "host")} {
				if err := headError(t, head); err != nil {
					t.Errorf("%s, signed as is %v: %v", path, asIs, err)
				}
				if err := headError(t, strings.Replace(head, " /", " /x", 1)); code(err) != "SignatureDoesNotMatch" {
					t.Errorf("%s, another path: %v", path, err)
				}
			}
		}
	}
}

// TestQueries: parameters are signed as what they mean, or as they are sent, and
// never as something that means another thing.
func TestQueries(t *testing.T) {
	t.Parallel()
	sign := func(query string, asIs bool) string {
		return scribe{asIs: asIs}.header("GET /b?"+query+" HTTP/1.1\nHost: s3.example\nx-amz-content-sha256: "+unsignedSum, sumNames...)
	}
	for _, query := range []string{
		"acl", "acl=", "b=2&a=1", "a=2&a=1&a", "prefix=a%20b", "prefix=a+b", "prefix=a%2Bb", "prefix=a=b", "prefix=a%3Db", "prefix=a/b:c,d", "prefix=%c3%bc", "prefix=%C3%BC",
		"a-b=1&a=2", "a&&b=1", "&", "A=1&a=1", "list-type=2&prefix=~&delimiter=%7E", "versionId=a%3Bb",
	} {
		for _, asIs := range []bool{false, true} {
			if err := headError(t, sign(query, asIs)); err != nil {
				t.Errorf("%s, signed as is %v: %v", query, asIs, err)
			}
		}
	}
	// What the first signs is not what the second means.
	for _, change := range [][2]string{
		{"prefix=a%2Bb", "prefix=a+b"},
		{"prefix=a%2Bb", "prefix=a%20b"},
		{"prefix=a+b", "prefix=a%2Bb"},
		{"prefix=a%3Bb", "prefix=a;b"},
		{"acl", "acl=x"},
		{"a=1&b=2", "a=1%26b=2"},
		{"a=1&b=2", "a=1&b=2&b=2"},
		{"a=b=c", "a%3Db=c"},
		{"a=%2520", "a=%20"},
	} {
		for _, asIs := range []bool{false, true} {
			if err := headError(t, strings.Replace(sign(change[0], asIs), change[0], change[1], 1)); err == nil {
				t.Errorf("%s, signed as is %v, is good for %s", change[0], asIs, change[1])
			}
		}
	}
	if err := headError(t, strings.Replace(sign("prefix=a+b", false), "a+b", "a%20b", 1)); err != nil {
		t.Errorf("two spellings of a space: %v", err)
	}
}

// TestSignedHeaders verifies headers that servers take out of what they read,
// that proxies in between like to change, and that signers leave out. Row 23 of
// the public reports (versitygw#1707) is Expect; row 25 is a port in Host.
func TestSignedHeaders(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"expect":            "Expect: 100-continue",
		"user-agent":        "User-Agent: a  b/1",
		"accept-encoding":   "Accept-Encoding: identity",
		"content-length":    "Content-Length: 5",
		"content-type":      "Content-Type: text/plain; charset=utf-8",
		"connection":        "Connection: close",
		"transfer-encoding": "Transfer-Encoding: chunked",
		"x-two":             "X-Two:  a\nX-Between: \nx-two: b   c\t ",
		"x-latin":           "X-Latin: \xfc",
		"cache-control":     "Cache-Control: no-cache",
		"range":             "Range: bytes=0-",
		"te":                "TE: trailers",
	} {
		text := "PUT /b/k HTTP/1.1\nHost: s3.example:443\n" + header + "\nx-amz-content-sha256: " + unsignedSum
		signed := scribe{}.header(text, append([]string{name}, sumNames...)...)
		if err := headError(t, signed); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, other := range []string{strings.Replace(signed, ":443", "", 1), strings.Replace(signed, header, "x-nothing: 1", 1)} {
			if err := headError(t, other); code(err) != "SignatureDoesNotMatch" {
				t.Errorf("%s changed: %v", name, err)
			}
		}
	}
}

// TestSpaces: two spaces in a header are one to most clients, and two to some.
func TestSpaces(t *testing.T) {
	t.Parallel()
	for _, spaces := range []bool{false, true} {
		signed := scribe{spaces: spaces}.header(getHead+"\nx-amz-meta-a: b  c", append([]string{"x-amz-meta-a"}, sumNames...)...)
		if err := headError(t, signed); err != nil {
			t.Errorf("kept %v: %v", spaces, err)
		}
		if err := headError(t, strings.Replace(signed, "b  c", "bc", 1)); code(err) != "SignatureDoesNotMatch" {
			t.Errorf("kept %v: %v", spaces, err)
		}
	}
}

// TestUnsignedHeader is row 22 of the public reports (versitygw 5774702): who is
// given a presigned PUT must not make a copy of another object of it.
func TestUnsignedHeader(t *testing.T) {
	t.Parallel()
	presigned := scribe{}.query("PUT /b/k HTTP/1.1\nHost: s3.example", "host")
	if err := headError(t, presigned); err != nil {
		t.Fatal(err)
	}
	if err := headError(t, presigned+"\nx-amz-copy-source: /other/secret"); code(err) != "AccessDenied" ||
		!strings.Contains(err.Error(), "x-amz-copy-source") {
		t.Fatal(err)
	}
}
