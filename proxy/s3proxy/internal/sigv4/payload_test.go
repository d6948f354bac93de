package sigv4

import (
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

const hello = "hello world"

// Checksums of hello, by Python's zlib, hashlib and awscrt; that of crc64nvme is
// what the SDKs sent that were recorded.
var helloSums = map[string]string{
	"crc32":     "DUoRhQ==",
	"crc32c":    "yZRlqg==",
	"crc64nvme": "jSnVw/bqjr4=",
	"sha1":      "Kq5sNclPz7QV2+lfQIuc6R7oRu0=",
	"sha256":    "uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek=",
}

func sumOf(name string) string { return "x-amz-checksum-" + name + ":" + helloSums[name] }

func helloMD5() string {
	sum := md5.Sum([]byte(hello))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// TestPayloads: what is read of a payload in each mode, and with what code it is
// refused.
func TestPayloads(t *testing.T) {
	t.Parallel()
	put := func(sum string, headers ...string) string {
		head, _ := scribe{}.put(sum, len(hello), headers...)
		return head
	}
	for name, test := range map[string]struct{ head, body, want string }{
		"sha256":               {put(sha(hello)), hello, ""},
		"sha256, upper case":   {put(strings.ToUpper(sha(hello))), hello, ""},
		"sha256, another body": {put(sha(hello)), "hello worle", "XAmzContentSHA256Mismatch"},
		"sha256, short body":   {put(sha(hello)), "hello", "IncompleteBody"},
		"unsigned":             {put(unsignedSum), hello, ""},
		"unsigned, short body": {put(unsignedSum), "hello", "IncompleteBody"},
		"md5":                  {put(unsignedSum, "content-md5: "+helloMD5()), hello, ""},
		"md5, another body":    {put(unsignedSum, "content-md5: "+helloMD5()), "hello worle", "BadDigest"},
		"md5, not base64":      {put(unsignedSum, "content-md5: nonsense"), hello, "InvalidDigest"},
		"md5, too short":       {put(unsignedSum, "content-md5: aGVsbG8="), hello, "InvalidDigest"},
		"md5 twice":            {put(unsignedSum) + "content-md5: " + helloMD5() + "\ncontent-md5: " + helloMD5(), hello, "InvalidDigest"},
		"checksum, no base64":  {put(unsignedSum, "x-amz-checksum-crc32: !"), hello, "InvalidRequest"},
		"checksum, too long":   {put(unsignedSum, "x-amz-checksum-crc32: AAAAAAA="), hello, "InvalidRequest"},
		"two checksums":        {put(unsignedSum, sumOf("crc32"), sumOf("sha1")), hello, "InvalidRequest"},
		"unknown checksum":     {put(unsignedSum, "x-amz-checksum-md6: AAAA"), hello, "NotImplemented"},
		"what is no checksum": {put(unsignedSum, "x-amz-checksum-algorithm: CRC32", "x-amz-checksum-type: FULL_OBJECT", "x-amz-checksum-mode: ENABLED",
			"x-amz-sdk-checksum-algorithm: CRC32"), hello, ""},
		"trailer without chunks":  {put(unsignedSum, "x-amz-trailer: x-amz-checksum-crc32"), hello, "InvalidRequest"},
		"no decoded length":       {put(unsignedTrailer), hello, "MissingContentLength"},
		"no number":               {put(unsignedTrailer, "x-amz-decoded-content-length: +1"), hello, "InvalidArgument"},
		"a negative length":       {put(unsignedTrailer, "x-amz-decoded-content-length: -1"), hello, "InvalidArgument"},
		"too large a number":      {put(unsignedTrailer, "x-amz-decoded-content-length: 9223372036854775808"), hello, "InvalidArgument"},
		"an unknown trailer":      {put(unsignedTrailer, "x-amz-decoded-content-length: 1", "x-amz-trailer: x-amz-meta-a"), hello, "InvalidRequest"},
		"two trailers":            {put(unsignedTrailer, "x-amz-decoded-content-length: 1", "x-amz-trailer: x-amz-checksum-crc32,x-amz-checksum-sha1"), hello, "InvalidRequest"},
		"a checksum in two ways":  {put(unsignedTrailer, "x-amz-decoded-content-length: 1", "x-amz-trailer: x-amz-checksum-crc32", sumOf("crc32")), hello, "InvalidRequest"},
		"not framed as it should": {put(signedChunks, "x-amz-decoded-content-length: 11"), hello, "IncompleteBody"},
		"presigned":               {scribe{}.query("PUT /b/k HTTP/1.1\nHost: h\nContent-Length: 11", "host"), hello, ""},
		"presigned, pinned": {
			scribe{hash: sha(hello)}.query("PUT /b/k HTTP/1.1\nHost: h\nContent-Length: 11\nx-amz-content-sha256: "+sha(hello), "host", "x-amz-content-sha256"),
			hello, "",
		},
		"presigned, pinned to another": {
			scribe{hash: sha("x")}.query("PUT /b/k HTTP/1.1\nHost: h\nContent-Length: 11\nx-amz-content-sha256: "+sha("x"), "host", "x-amz-content-sha256"),
			hello, "XAmzContentSHA256Mismatch",
		},
		"presigned, pinned in the query": {
			scribe{hash: sha("x")}.query("PUT /b/k?X-Amz-Content-Sha256="+sha("x")+" HTTP/1.1\nHost: h\nContent-Length: 11", "host"),
			hello, "XAmzContentSHA256Mismatch",
		},
		"presigned, checksum of an empty body": {scribe{}.query("PUT /b/k?x-amz-checksum-crc32=AAAAAA%3D%3D HTTP/1.1\nHost: h\nContent-Length: 11", "host"), hello, ""},
		"no length": {
			scribe{}.header("PUT /b/k HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\nx-amz-content-sha256: "+unsignedSum, sumNames...),
			transferChunks(hello), "MissingContentLength",
		},
		"checksum of a completed object": {scribe{}.header("POST /b/k?uploadId=x HTTP/1.1\nHost: h\nContent-Length: 11\nx-amz-checksum-crc32: AAAAAA==\nx-amz-content-sha256: "+
			unsignedSum, append([]string{"x-amz-checksum-crc32"}, sumNames...)...), hello, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := payload(at(exampleTime()), request(t, test.head, strings.NewReader(test.body)))
			if code(err) != test.want || err == nil && string(body) != hello {
				t.Fatalf("%q, %v, want %q", body, err, test.want)
			}
			if err != nil && len(body) >= len(hello) {
				t.Fatalf("the last byte came with %v", err)
			}
		})
	}
}

// TestChecksums verifies every checksum in a header and in a trailer, and that
// what was verified is known afterwards, and not before.
func TestChecksums(t *testing.T) {
	t.Parallel()
	for name := range helloSums {
		inHeader, _ := scribe{}.put(unsignedSum, len(hello), sumOf(name))
		requests := map[string][2]string{"header": {inHeader, hello}}
		for _, mode := range []string{signedTrailer, unsignedTrailer} {
			head, body := scribe{}.upload(mode, []string{sumOf(name)}, hello)
			requests[mode] = [2]string{head, body}
		}
		for place, text := range requests {
			q, err := at(exampleTime()).Verify(request(t, text[0], iotest.HalfReader(strings.NewReader(text[1]))))
			if err != nil {
				t.Fatal(err)
			}
			p, err := q.Payload()
			if err != nil {
				t.Fatal(err)
			}
			if p.Size() != int64(len(hello)) || p.Checksums() != nil {
				t.Errorf("%s in %s: %d bytes, %v before", name, place, p.Size(), p.Checksums())
			}
			if body, err := io.ReadAll(p); err != nil || string(body) != hello {
				t.Errorf("%s in %s: %q %v", name, place, body, err)
			}
			if got := p.Checksums(); !maps.Equal(got, map[string]string{"x-amz-checksum-" + name: helloSums[name]}) {
				t.Errorf("%s in %s: %v", name, place, got)
			}
			body := strings.Replace(text[1], hello, "hello worle", 1)
			if _, err := payload(at(exampleTime()), request(t, text[0], strings.NewReader(body))); code(err) != "BadDigest" && place != signedTrailer {
				t.Errorf("%s in %s: another body: %v", name, place, err)
			}
		}
	}
}

// TestEmpty: an empty payload is verified before it ends.
func TestEmpty(t *testing.T) {
	t.Parallel()
	signed, signedBody := scribe{}.upload(signedChunks, nil)
	trailer, trailerBody := scribe{}.upload(unsignedTrailer, []string{"x-amz-checksum-crc32:AAAAAA=="})
	wrong, wrongBody := scribe{}.upload(unsignedTrailer, []string{sumOf("crc32")})
	bare, _ := scribe{}.put(emptySum, 0)
	another, _ := scribe{}.put(sha(hello), 0)
	for _, test := range [][3]string{
		{signed, signedBody, ""},
		{signed, strings.Replace(signedBody, "signature=", "signature=0", 1), "SignatureDoesNotMatch"},
		{signed, "", "IncompleteBody"},
		{trailer, trailerBody, ""},
		{wrong, wrongBody, "BadDigest"},
		{bare, "", ""},
		{another, "", "XAmzContentSHA256Mismatch"},
	} {
		if body, err := payload(at(exampleTime()), request(t, test[0], strings.NewReader(test[1]))); code(err) != test[2] || len(body) > 0 {
			t.Errorf("%s: %q %v", test[0], body, err)
		}
	}
}

// TestBroken: an error of the connection is itself, and comes again.
func TestBroken(t *testing.T) {
	t.Parallel()
	reset := errors.New("reset")
	for _, sum := range []string{unsignedSum, sha(hello)} {
		head, _ := scribe{}.put(sum, len(hello))
		r := request(t, head, strings.NewReader(hello))
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader("hello"), iotest.ErrReader(reset)))
		q, err := at(exampleTime()).Verify(r)
		if err != nil {
			t.Fatal(err)
		}
		p, err := q.Payload()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(p)
		if string(body) != "hello" || !errors.Is(err, reset) {
			t.Errorf("%q %v", body, err)
		}
		if n, again := p.Read(make([]byte, 1)); n != 0 || !errors.Is(again, reset) {
			t.Errorf("then %d %v", n, again)
		}
	}
}

// TestContentEncoding: only aws-chunked is taken out.
func TestContentEncoding(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "gzip": "gzip", "aws-chunked": "", "aws-chunked,gzip": "gzip", "gzip, AWS-Chunked": "gzip", "gzip,  br": "gzip,  br",
		"aws-chunked, gzip, br": "gzip,br", "aws-chunked-not": "aws-chunked-not", "aws-chunked|gzip": "gzip", "gzip|br": "gzip,br",
	} {
		h := http.Header{"Content-Encoding": strings.Split(text, "|")}
		if got := ContentEncoding(h); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	if got := ContentEncoding(http.Header{}); got != "" {
		t.Error(got)
	}
}

func ExampleContentEncoding() {
	fmt.Println(ContentEncoding(http.Header{"Content-Encoding": {"aws-chunked, gzip"}}))
	// Output: gzip
}
