package plainhead

import (
	"net/textproto"
	"strings"
)

// canonical is, of the names that come with many requests and answers, how net/http has
// them; and lower the other way: most of the work of a signature would be to make the
// one out of the other.
var canonical, lower = func() (canonical, lower map[string]string) { //nolint:gochecknoglobals // a table
	canonical, lower = make(map[string]string), make(map[string]string)
	for _, name := range []string{
		"accept", "accept-encoding", "accept-ranges", "amz-sdk-invocation-id", "amz-sdk-request", "authorization", "cache-control", "connection",
		"content-encoding", "content-length", "content-md5", "content-range", "content-type", "date", "etag", "expect", "fence-token", "host",
		"if-match", "if-modified-since", "if-none-match", "if-unmodified-since", "last-modified", "range", "server", "user-agent",
		"x-amz-acl", "x-amz-checksum-algorithm", "x-amz-checksum-crc32", "x-amz-checksum-crc32c", "x-amz-checksum-crc64nvme",
		"x-amz-checksum-mode", "x-amz-checksum-type", "x-amz-content-sha256", "x-amz-copy-source", "x-amz-date", "x-amz-decoded-content-length",
		"x-amz-id-2", "x-amz-meta-fence", "x-amz-meta-fence-token", "x-amz-object-size", "x-amz-request-id", "x-amz-sdk-checksum-algorithm",
		"x-amz-security-token", "x-amz-storage-class", "x-amz-tagging", "x-amz-trailer", "x-amz-user-agent",
	} {
		known := textproto.CanonicalMIMEHeaderKey(name)
		canonical[name], canonical[known], lower[known] = known, known, name
	}
	for _, sent := range []string{"ETag", "Content-MD5"} { // as many spell them
		canonical[sent] = textproto.CanonicalMIMEHeaderKey(sent)
	}
	return canonical, lower
}()

// Canonical is the name of a header as net/http has it.
func Canonical(name string) string {
	if known, ok := canonical[name]; ok {
		return known
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// Lower is the name of a header in lower case.
func Lower(name string) string {
	if known, ok := lower[name]; ok {
		return known
	}
	return strings.ToLower(name)
}
