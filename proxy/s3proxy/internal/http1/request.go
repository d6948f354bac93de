package http1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/plainhead"
)

var (
	errLongHead = errors.New("the head does not end")
	errGone     = errors.New("there are no more requests")
)

// refusal is the answer to what is no request.
type refusal struct {
	status int
	text   string // in the words of this package
}

func (r *refusal) Error() string { return r.text }

// bufferSlop is by how much a head may be longer than it may, in bytes: it is not
// counted to the byte.
const bufferSlop = 4 << 10

// next reads the head of the next request, whose body is still to be read.
func (c *conn) next() (*http.Request, error) {
	c.left = int64(c.server.config.MaxHeader) + bufferSlop
	if c.state.Load() == stateClosed || !c.await() || !c.begin() { // the first after the deadline was set, which would undo endIdle's
		return nil, errGone
	}
	r := c.plainRequest()
	if r == nil {
		var err error
		if r, err = c.anyRequest(); err != nil {
			return nil, err
		}
	}
	c.left, c.after = -1, r.Method
	r.RemoteAddr, r.TLS = c.remote, c.tls
	return r, nil
}

// lineEnds is how many bytes of them may be between two requests.
const lineEnds = 4

// await waits for a request. Old clients send line ends behind the body of a POST: those
// begin none.
//
// https://www.rfc-editor.org/rfc/rfc9112#section-2.2
func (c *conn) await() bool {
	for skipped := 0; ; skipped++ {
		begin, err := c.r.Peek(1)
		if err != nil {
			return false
		}
		if c.after != http.MethodPost || skipped == lineEnds || begin[0] != '\r' && begin[0] != '\n' {
			return true
		}
		_, _ = c.r.Discard(1)
	}
}

// plainRequest reads a request as almost all are: its head is in the buffer already,
// and tells the length of the body, if there is one. It returns nil and has read
// nothing of any other, which is http.ReadRequest's: what both read they read alike.
func (c *conn) plainRequest() *http.Request {
	data, err := c.r.Peek(c.r.Buffered())
	end := bytes.Index(data, []byte("\r\n\r\n"))
	if err != nil || end < 0 {
		return nil
	}
	line, rest, _ := strings.Cut(string(data[:end+2]), "\r\n")
	method, line, _ := strings.Cut(line, " ")
	target, proto, _ := strings.Cut(line, " ")
	switch method {
	case http.MethodGet, http.MethodPut, http.MethodHead, http.MethodPost, http.MethodDelete:
	default:
		return nil
	}
	if proto != "HTTP/1.1" || !strings.HasPrefix(target, "/") {
		return nil
	}
	at, err := url.ParseRequestURI(target)
	if err != nil {
		return nil
	}
	h, length, ok := plainhead.Fields(rest)
	host := h["Host"]
	if !ok || len(host) != 1 || host[0] == "" || !httpguts.ValidHostHeader(host[0]) {
		return nil
	}
	delete(h, "Host")
	_, _ = c.r.Discard(end + 4) // which are there
	r := &http.Request{
		Method: method, RequestURI: target, URL: at, Proto: proto, ProtoMajor: 1, ProtoMinor: 1,
		Host: host[0], Header: h, ContentLength: max(length, 0), Body: http.NoBody,
	}
	if length > 0 {
		r.Body = &body{src: c.r, size: length, left: length}
	}
	return r
}

// decline ends a connection on which there is no request to answer. Whoever has hung up
// or kept silent is not told.
func (c *conn) decline(err error) {
	status, text := http.StatusBadRequest, ""
	refused := (*refusal)(nil)
	silent := (*net.OpError)(nil) // and not any net.Error: an *url.Error is one
	switch {
	case errors.Is(err, errGone), errors.Is(err, io.EOF), errors.As(err, &silent):
		return
	case errors.Is(err, errLongHead):
		status = http.StatusRequestHeaderFieldsTooLarge
	case errors.As(err, &refused):
		status, text = refused.status, ": "+refused.text
	case unsupported(err):
		status, text = http.StatusNotImplemented, ": unsupported transfer encoding"
	}
	c.writes.within(c.client.SendTimeout)
	text = http.StatusText(status) + text + "\n"
	_ = c.write(appendStatus(nil, true, status), []byte("Content-Type: text/plain; charset=utf-8\r\nContent-Length: "+strconv.Itoa(len(text))+"\r\nConnection: close\r\n\r\n"+text))
	c.lingerOn(nil, time.Now().Add(lingerLimit))
}

// unsupported reports whether the body has a transfer encoding that is not served, or
// several. Net/http has no other way to tell.
func unsupported(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "unsupported transfer encoding") || strings.HasPrefix(text, "too many transfer encodings")
}

// answer has the handler answer a request. It reports whether another may follow.
func (c *conn) answer(r *http.Request) (again bool) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	r = r.WithContext(ctx)
	w := &Response{conn: c, is11: r.ProtoAtLeast(1, 1), bare: r.Method == http.MethodHead, header: make(http.Header, headerHint), length: -1}
	w.last = r.Close || !w.is11 // which may have had a transfer encoding, that net/http drops (RFC 9112, 6.1)
	if w.body, _ = r.Body.(*body); w.body != nil && w.body.twice {
		w.last = true // RFC 9112, 6.1
	}
	defer w.release()
	if expected := r.Header["Expect"]; len(expected) > 0 && expected[0] != "" {
		if !httpguts.HeaderValuesContainsToken(expected, "100-continue") {
			w.header.Set("Connection", "close")
			w.header.Set("Content-Length", "0")
			w.WriteHeader(http.StatusExpectationFailed)
			return w.finish()
		}
		w.expected = w.is11
		if w.body == nil {
			// Net/http asks nobody for no bytes. But botocore then reads the next
			// answer on the connection wrongly, and waits for more of it until it
			// gives up.
			w.goOn()
		} else {
			w.body.before = w.goOn
		}
	}
	c.client.Handler(w, r)
	cancel() // the rest of a body may be waited for
	return w.finish()
}
