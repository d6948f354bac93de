package sigv4

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const emptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// TestVectors verifies what AWS publishes as examples of its documentation:
// sig-v4-header-based-auth, sigv4-streaming, sigv4-streaming-trailers and
// sigv4-query-string-auth.
func TestVectors(t *testing.T) {
	t.Parallel()
	authorization := func(signed, signature string) string {
		return fmt.Sprintf("Authorization: AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s", exampleKey, exampleScope, signed, signature)
	}
	for name, test := range map[string]struct{ head, body, want string }{
		"GET Object": {head: `GET /test.txt HTTP/1.1
Host: examplebucket.s3.amazonaws.com
Range: bytes=0-9
x-amz-content-sha256: ` + emptySum + `
x-amz-date: 20130524T000000Z
` + authorization("host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")},
		"PUT Object": {
			head: `PUT /test$file.text HTTP/1.1
Host: examplebucket.s3.amazonaws.com
Date: Fri, 24 May 2013 00:00:00 GMT
Content-Length: 21
x-amz-date: 20130524T000000Z
x-amz-storage-class: REDUCED_REDUNDANCY
x-amz-content-sha256: 44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072
` + authorization("date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
			body: "Welcome to Amazon S3.", want: "Welcome to Amazon S3.",
		},
		"GET Bucket Lifecycle": {head: `GET /?lifecycle HTTP/1.1
Host: examplebucket.s3.amazonaws.com
x-amz-date: 20130524T000000Z
x-amz-content-sha256: ` + emptySum + `
` + authorization("host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")},
		"List Objects": {head: `GET /?prefix=J&max-keys=2 HTTP/1.1
Host: examplebucket.s3.amazonaws.com
x-amz-date: 20130524T000000Z
x-amz-content-sha256: ` + emptySum + `
` + authorization("host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")},
		"presigned GET": {head: `GET /test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404 HTTP/1.1
Host: examplebucket.s3.amazonaws.com`},
		"PUT Object in chunks": {
			head: `PUT /examplebucket/chunkObject.txt HTTP/1.1
Host: s3.amazonaws.com
x-amz-date: 20130524T000000Z
x-amz-storage-class: REDUCED_REDUNDANCY
x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD
Content-Encoding: aws-chunked
x-amz-decoded-content-length: 66560
Content-Length: 66824
` + authorization("content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class",
				"4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"),
			body: exampleChunks([3]string{
				"ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
				"0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
				"b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
			}, ""),
			want: strings.Repeat("a", 66560),
		},
		"PUT Object in chunks with a trailer": {
			head: `PUT /examplebucket/chunkObject.txt HTTP/1.1
Host: s3.amazonaws.com
x-amz-date: 20130524T000000Z
x-amz-storage-class: REDUCED_REDUNDANCY
x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER
Content-Encoding: aws-chunked
x-amz-decoded-content-length: 66560
x-amz-trailer: x-amz-checksum-crc32c
Transfer-Encoding: chunked
` + authorization("content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer",
				"106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"),
			body: transferChunks(exampleChunks([3]string{
				"b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
				"1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
				"2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
			}, "x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n")),
			want: strings.Repeat("a", 66560),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := payload(at(exampleTime().Add(time.Minute)), request(t, test.head, strings.NewReader(test.body)))
			if err != nil || string(body) != test.want {
				t.Fatalf("%d bytes, error %v", len(body), err)
			}
		})
	}
}

// exampleChunks is the body of AWS's two examples of chunks.
func exampleChunks(signatures [3]string, trailer string) string {
	return "10000;chunk-signature=" + signatures[0] + "\r\n" + strings.Repeat("a", 65536) + "\r\n" +
		"400;chunk-signature=" + signatures[1] + "\r\n" + strings.Repeat("a", 1024) + "\r\n" +
		"0;chunk-signature=" + signatures[2] + "\r\n" + trailer + "\r\n"
}

// transferChunks frames a body as HTTP does.
func transferChunks(body string) string {
	var b strings.Builder
	for len(body) > 0 {
		n := min(len(body), 10000)
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}
