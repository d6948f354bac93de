package lane

import (
	"bytes"
	"errors"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

const (
	// maxInterim bounds the answers that come before the one that counts.
	maxInterim = 5
	// maxHead bounds the heads of all of them, in bytes. S3's are a few KiB.
	maxHead = 1 << 20
)

var errLongHead = errors.New("the head of the answer does not end")

// readHead reads the head of the answer that counts.
func readHead(c *conn, r *http.Request) (*http.Response, error) {
	c.head = maxHead
	defer func() { c.head = 0 }()
	for range maxInterim {
		res := plainHead(c, r)
		if res == nil {
			var err error
			if res, err = http.ReadResponse(c.r, r); err != nil {
				return nil, err
			}
		}
		if res.StatusCode >= http.StatusOK {
			return res, nil
		}
		if res.StatusCode == http.StatusSwitchingProtocols {
			break
		}
	}
	return nil, errors.New("the server does not answer")
}

// plainHead reads the head of an answer as almost all are: it is in the buffer
// already, and tells the length of its body, once. It returns nil and has read nothing
// of any other, which is http.ReadResponse's: what both read they read alike. A body
// that the answer has is still in the connection, and nil here.
func plainHead(c *conn, r *http.Request) *http.Response {
	if r.Method != http.MethodGet && r.Method != http.MethodPut {
		return nil
	}
	data, err := c.r.Peek(c.r.Buffered())
	end := bytes.Index(data, []byte("\r\n\r\n"))
	if err != nil || end < 0 {
		return nil
	}
	line, rest, _ := strings.Cut(string(data[:end+2]), "\r\n")
	status, ok := plainStatus(line)
	if !ok {
		return nil
	}
	res := &http.Response{
		Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Status: line[len("HTTP/1.1 "):], StatusCode: status,
	}
	if res.Header, res.ContentLength, ok = plainHeader(rest); !ok {
		return nil
	}
	if res.ContentLength == 0 {
		res.Body = http.NoBody
	}
	_, _ = c.r.Discard(end + 4) // which are there
	return res
}

// plainStatus reads the first line of an answer, of those that have a body.
func plainStatus(line string) (status int, ok bool) {
	text, ok := strings.CutPrefix(line, "HTTP/1.1 ")
	if !ok || len(text) < 4 || text[0] < '2' || text[0] > '9' || text[3] != ' ' || !httpguts.ValidHeaderFieldValue(text) {
		return 0, false
	}
	status, err := strconv.Atoi(text[:3])
	return status, err == nil && status != http.StatusNoContent && status != http.StatusNotModified
}

// plainHeader reads the lines that follow, of which each has its end.
func plainHeader(text string) (h http.Header, length int64, ok bool) {
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
	return h, length, length >= 0
}

// canonicalNames are names as stores send them, and as net/http has them.
var canonicalNames = func() map[string]string { //nolint:gochecknoglobals // a table
	names := make(map[string]string)
	for _, name := range []string{
		"accept-ranges", "content-encoding", "content-length", "content-range", "content-type", "date", "ETag", "last-modified", "server",
		"x-amz-checksum-type", "x-amz-checksum-crc64nvme", "x-amz-id-2", "x-amz-object-size", "x-amz-request-id", "x-amz-storage-class",
	} {
		names[name] = textproto.CanonicalMIMEHeaderKey(name)
	}
	return names
}()

func canonicalName(name string) string {
	if known, ok := canonicalNames[name]; ok {
		return known
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}
