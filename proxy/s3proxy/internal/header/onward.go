package header

import (
	"net/http"
	"strings"

	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

// Onward is the header of a request as the store gets it: without what is for the
// client's connection, belongs to how the client signed and sent it, or carries a
// token; and without what is some store's own or a proxy's, which nobody has to
// sign: x-minio-force-delete deletes all keys that begin so, x-goog-copy-source
// names another bucket's.
func Onward(from http.Header) http.Header {
	to := make(http.Header, len(from))
	for name, values := range from {
		if !hopByHop(name) && !sending(name) && !extension(name) {
			to[name] = values
		}
	}
	for name := range strings.SplitSeq(strings.Join(from["Connection"], ","), ",") {
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		// Nobody has to sign Connection, so it does not take away what a client
		// may have signed: a condition, what is stored.
		if !strings.HasPrefix(name, "If-") && !strings.HasPrefix(name, "X-Amz-") {
			to.Del(name)
		}
	}
	carrier.StripS3(to, nil)
	if encoding := WithoutChunked(list(from, "Content-Encoding")); encoding == "" {
		to.Del("Content-Encoding")
	} else {
		to.Set("Content-Encoding", encoding)
	}
	return to
}

// Back puts the header of the store's answer into that of the proxy's.
func Back(to, from http.Header) {
	for name, values := range from {
		if !hopByHop(name) {
			to[name] = values
		}
	}
}

// hopByHop reports whether a header is for one connection only.
//
// https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// extension reports whether a header is some store's own or a proxy's.
func extension(name string) bool {
	return strings.HasPrefix(name, "X-") && !strings.HasPrefix(name, "X-Amz-")
}

// sending reports whether a header belongs to how the client sent its request.
// The algorithm of a checksum is that of one that may have come behind the body.
func sending(name string) bool {
	switch name {
	case "Authorization", "Expect", "Content-Length", "X-Amz-Date", "Date", "X-Amz-Content-Sha256", "X-Amz-Decoded-Content-Length", "X-Amz-Trailer",
		"X-Amz-Sdk-Checksum-Algorithm":
		return true
	}
	return false
}
