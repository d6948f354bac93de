// Package plainhead reads heads of HTTP/1.1 as almost all are, and knows the names in
// them. What it does not take is for net/http, and what it takes it reads as net/http
// does.
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
		sent, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, 0, false
		}
		name, known := canonical[sent]
		if !known {
			if !httpguts.ValidHeaderFieldName(sent) {
				return nil, 0, false
			}
			name = textproto.CanonicalMIMEHeaderKey(sent)
		}
		if value = strings.Trim(value, " \t"); !httpguts.ValidHeaderFieldValue(value) {
			return nil, 0, false
		}
		switch name {
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
