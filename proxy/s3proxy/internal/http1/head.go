package http1

import (
	"bufio"
	"bytes"
	"net/http"
	"net/textproto"

	"golang.org/x/net/http/httpguts"
)

// anyRequest reads a request that is not plain.
func (c *conn) anyRequest() (*http.Request, error) {
	if c.requests.Load() > 1 { // the first one's time began when the connection was opened
		c.reads.within(c.server.config.HeaderTimeout)
	}
	there, _ := c.r.Peek(c.r.Buffered())
	c.head = bytes.Clone(there)
	defer func() { c.head = nil }()
	r, err := http.ReadRequest(c.r)
	switch {
	case err != nil && c.left == 0:
		return nil, errLongHead
	case err != nil:
		return nil, err
	case r.ProtoMajor != 1:
		return nil, &refusal{http.StatusHTTPVersionNotSupported, "unsupported protocol version"}
	}
	told, err := c.told(r)
	if err != nil {
		return nil, err
	}
	if err := valid(r, told); err != nil {
		return nil, err
	}
	if r.Body != http.NoBody {
		if r.ContentLength < 0 && r.Trailer == nil {
			r.Trailer = make(http.Header) // or what nobody announced would not reach a copy of r
		}
		r.Body = &body{src: r.Body, size: r.ContentLength, left: -1, twice: r.ContentLength < 0 && told["Content-Length"] != nil}
	}
	return r, nil
}

// told returns the header of a request that was just read, with what http.ReadRequest
// drops of it: a length beside a transfer encoding, and the Host, which it does not look
// at if the target has one.
func (c *conn) told(r *http.Request) (http.Header, error) {
	if r.ContentLength >= 0 && r.URL.Host == "" {
		return http.Header{"Host": {r.Host}}, nil // nothing was
	}
	head := textproto.NewReader(bufio.NewReader(bytes.NewReader(c.head[:len(c.head)-c.r.Buffered()])))
	if _, err := head.ReadLine(); err != nil {
		return nil, err
	}
	all, err := head.ReadMIMEHeader()
	return http.Header(all), err
}

// valid refuses a request whose header, as it was told, is none that may be.
//
// https://www.rfc-editor.org/rfc/rfc9112#section-3.2
func valid(r *http.Request, told http.Header) error {
	hosts := told["Host"]
	if r.ProtoAtLeast(1, 1) && (r.Host == "" || len(hosts) == 0) {
		return &refusal{http.StatusBadRequest, "missing required Host header"}
	}
	for _, host := range append(hosts, r.Host) {
		if !httpguts.ValidHostHeader(host) {
			return &refusal{http.StatusBadRequest, "malformed Host header"}
		}
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return &refusal{http.StatusBadRequest, "invalid header name"}
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return &refusal{http.StatusBadRequest, "invalid header value"}
			}
		}
	}
	return nil
}
