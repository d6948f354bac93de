// Package plainhead reads heads of HTTP/1.1 as almost all are. What it does not take
// is for net/http, and what it takes it reads as net/http does.
package plainhead

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Fields reads the lines of a header, of which each has its end. Length is that of the
// body; -1 if none is told. It reports false for what is not plain: another framing, a
// connection that is not kept, a line that goes on in the next, or is wrong.
func Fields(text string) (h http.Header, length int64, ok bool) {
	count := strings.Count(text, "\n")
	h, length = make(http.Header, count), -1
	values := make([]string, 0, count)
	for text != "" {
		var line string
		if line, text, ok = strings.Cut(text, "\r\n"); !ok {
			return nil, 0, false
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, 0, false
		}
		switch name = canonicalName(name); name {
		case "Transfer-Encoding", "Trailer", "Pragma":
			return nil, 0, false
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return nil, 0, false
			}
		case "Content-Length":
			n, err := strconv.ParseUint(value, 10, 63)
			if err != nil {
				return nil, 0, false
			}
			length = int64(n)
		}
		if before := h[name]; before != nil {
			if name == "Content-Length" {
				return nil, 0, false
			}
			h[name] = append(before, value)
			continue
		}
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return h, length, true
}

// canonicalNames are names as they are sent, and as net/http has them.
var canonicalNames = func() map[string]string { //nolint:gochecknoglobals // a table
	names := make(map[string]string)
	for _, name := range []string{
		// Of answers.
		"accept-ranges", "content-encoding", "content-length", "content-range", "content-type", "date", "ETag", "last-modified", "server",
		"x-amz-checksum-type", "x-amz-checksum-crc64nvme", "x-amz-id-2", "x-amz-object-size", "x-amz-request-id", "x-amz-storage-class",
		// Of requests.
		"accept", "accept-encoding", "authorization", "Authorization", "connection", "content-md5", "Content-MD5", "Expect", "host", "user-agent", "x-amz-acl", "x-amz-checksum-algorithm", "x-amz-checksum-crc32",
		"x-amz-content-sha256", "x-amz-date", "x-amz-decoded-content-length", "x-amz-sdk-checksum-algorithm", "x-amz-security-token", "x-amz-trailer", "x-amz-user-agent",
		"amz-sdk-invocation-id", "amz-sdk-request",
	} {
		known := textproto.CanonicalMIMEHeaderKey(name)
		names[name], names[known] = known, known
	}
	return names
}()

func canonicalName(name string) string {
	if known, ok := canonicalNames[name]; ok {
		return known
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}
