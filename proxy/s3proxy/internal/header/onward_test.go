package header

import (
	"net/http"
	"reflect"
	"testing"
)

// What is between the client and the proxy alone does not go on.
func TestOnward(t *testing.T) {
	t.Parallel()
	from := http.Header{}
	for name, value := range map[string]string{
		"Authorization": "secret", "X-Amz-Date": "d", "X-Amz-Content-Sha256": "h", "X-Amz-Decoded-Content-Length": "1", "X-Amz-Trailer": "t", "Expect": "100-continue",
		"X-Amz-Security-Token": "ft1", "Fence-Token": "ft1", "X-Amz-Meta-Fence-Token": "ft1", "X-Amz-Sdk-Checksum-Algorithm": "CRC32",
		"Connection": "close", "Te": "trailers", "Transfer-Encoding": "chunked", "Upgrade": "h2c",
		"Content-Encoding": "aws-chunked,gzip", "Content-Type": "a/b", "X-Amz-Meta-A": "b", "If-Match": "e", "X-Amz-Checksum-Crc32": "c",
	} {
		from.Set(name, value)
	}
	from.Add("Content-Encoding", "br")
	want := http.Header{"Content-Encoding": {"gzip,br"}, "Content-Type": {"a/b"}, "X-Amz-Meta-A": {"b"}, "If-Match": {"e"}, "X-Amz-Checksum-Crc32": {"c"}}
	if got := Onward(from); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if len(from) != 19 {
		t.Errorf("the client's header has changed: %v", from)
	}
	to := http.Header{}
	Back(to, http.Header{"Connection": {"close"}, "Transfer-Encoding": {"chunked"}, "Etag": {"e"}, "X-Amz-Request-Id": {"i"}})
	if !reflect.DeepEqual(to, http.Header{"Etag": {"e"}, "X-Amz-Request-Id": {"i"}}) {
		t.Errorf("%v", to)
	}
}
