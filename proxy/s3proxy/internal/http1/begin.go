package http1

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// WriteHeader begins the answer. The status is a final one.
func (w *Response) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.mu.Lock()
	w.over = w.over || w.expected // a client that never got leave may send its body, or not
	w.expected = false
	w.mu.Unlock()
	w.status = status
	w.held = heldPool.Get().(*[]byte)
	*w.held = w.appendHeader(appendStatus((*w.held)[:0], w.is11, status))
}

// appendStatus appends the first line of an answer.
func appendStatus(b []byte, is11 bool, status int) []byte {
	if is11 {
		b = append(b, "HTTP/1.1 "...)
	} else {
		b = append(b, "HTTP/1.0 "...)
	}
	b = append(strconv.AppendInt(b, int64(status), 10), ' ')
	return append(append(b, http.StatusText(status)...), "\r\n"...)
}

// appendHeader appends the lines of the header with their end, and decides how the body
// is framed.
func (w *Response) appendHeader(b []byte) []byte {
	if w.status == http.StatusNoContent || w.status == http.StatusNotModified {
		w.bare = true
	}
	if text := w.header["Content-Length"]; len(text) == 1 {
		if n, err := strconv.ParseUint(text[0], 10, 63); err == nil {
			w.length = int64(n)
		}
	}
	var few [headerHint]string
	names := few[:0]
	for name := range w.header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		values := w.header[name]
		switch name {
		case "Connection":
			w.last = w.last || httpguts.HeaderValuesContainsToken(values, "close")
			continue
		case "Transfer-Encoding":
			continue
		case "Content-Length":
			if w.length < 0 || w.status == http.StatusNoContent {
				continue
			}
		}
		if !httpguts.ValidHeaderFieldName(name) {
			continue
		}
		for _, v := range values {
			b = append(append(append(append(b, name...), ": "...), oneLine(v)...), "\r\n"...)
		}
	}
	if w.header["Date"] == nil {
		b = append(time.Now().UTC().AppendFormat(append(b, "Date: "...), http.TimeFormat), "\r\n"...)
	}
	if !w.bare && w.length < 0 {
		if w.chunked = w.is11; w.chunked {
			b = append(b, "Transfer-Encoding: chunked\r\n"...)
		}
	}
	w.last = w.last || w.conn.server.draining.Load() || w.unread() && (w.over || !w.body.mayCome())
	if w.last {
		b = append(b, "Connection: close\r\n"...)
	}
	return append(b, "\r\n"...)
}

// oneLine is a value as it can be in a line of a header.
func oneLine(v string) string {
	if strings.ContainsAny(v, "\r\n") {
		v = strings.NewReplacer("\r", " ", "\n", " ").Replace(v)
	}
	return strings.Trim(v, " \t")
}

// unread reports whether more of the request's body is to come.
func (w *Response) unread() bool { return w.body != nil && !w.body.whole.Load() }
