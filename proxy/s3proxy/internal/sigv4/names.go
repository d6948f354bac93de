package sigv4

import (
	"net/http"
	"strings"
)

// lowerNames are the names of headers that come with many requests, in lower case by
// how net/http has them, and canonicalNames the other way: most of the work of a
// signature would be to make the one out of the other.
var lowerNames, canonicalNames = func() (lower, canonical map[string]string) { //nolint:gochecknoglobals // a table
	lower, canonical = make(map[string]string), make(map[string]string)
	for _, name := range []string{
		"accept-encoding", "amz-sdk-invocation-id", "amz-sdk-request", "cache-control", "content-encoding", "content-length", "content-md5",
		"content-type", "date", "expect", "fence-token", "host", "if-match", "if-modified-since", "if-none-match", "if-unmodified-since",
		"range", "user-agent", "x-amz-acl", "x-amz-checksum-crc32", "x-amz-checksum-crc32c", "x-amz-checksum-crc64nvme",
		"x-amz-checksum-mode", "x-amz-content-sha256", "x-amz-copy-source", "x-amz-date", "x-amz-decoded-content-length",
		"x-amz-meta-fence", "x-amz-meta-fence-token", "x-amz-sdk-checksum-algorithm", "x-amz-security-token", "x-amz-tagging",
		"x-amz-trailer", "x-amz-user-agent",
	} {
		key := http.CanonicalHeaderKey(name)
		lower[key], canonical[name] = name, key
	}
	return lower, canonical
}()

// lowerName is the name of a header in lower case.
func lowerName(name string) string {
	if lower, ok := lowerNames[name]; ok {
		return lower
	}
	return strings.ToLower(name)
}

// canonicalName is the name in lower case as net/http has it.
func canonicalName(name string) string {
	if key, ok := canonicalNames[name]; ok {
		return key
	}
	return http.CanonicalHeaderKey(name)
}
