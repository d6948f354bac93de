package lane

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/plainhead"
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
	if res.Header, res.ContentLength, ok = plainhead.Fields(rest); !ok || res.ContentLength < 0 {
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
