package s3proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// rawRequest is what a signed request is on the wire.
func rawRequest(t *testing.T, p *proxy, q request, more string) string {
	t.Helper()
	r := q.sign(t, p.addr, appKey, appSecret)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n%s", q.method, q.target, p.addr, more)
	_ = r.Header.Write(&b)
	return b.String() + "\r\n"
}

// Requests that are sent without waiting for answers are told apart, whatever
// comes of the bodies between them, and each is judged by its own token.
func TestAttackPipelined(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	put(t, p.app(t, token(34)), e.bucket, "k", "new")
	target := "/" + e.bucket + "/k"
	inner := rawRequest(t, p, request{method: http.MethodPut, target: target, header: carrying(t, token(34))}, "Content-Length: 0\r\n")
	stale, current, none := carrying(t, token(33)), carrying(t, token(34)), map[string]string(nil)
	var b strings.Builder
	var want []int
	add := func(method string, header map[string]string, body string, status int) {
		b.WriteString(rawRequest(t, p, request{method: method, target: target, header: header}, fmt.Sprintf("Content-Length: %d\r\n", len(body))) + body)
		want = append(want, status)
	}
	for range 3 {
		add(http.MethodPut, stale, inner, 412)
		add(http.MethodPut, none, inner, 403)
		add(http.MethodGet, none, inner, 200)
		add(http.MethodPut, current, inner, 200)
		add(http.MethodDelete, stale, inner, 412)
		add(http.MethodPut, map[string]string{"X-Amz-Security-Token": "ft1:"}, strings.Repeat("x", 100<<10), 400)
		add(http.MethodHead, none, "", 200)
		add(http.MethodPost, current, inner, 501)
	}
	conn := p.dial(t)
	go func() { _, _ = io.WriteString(conn, b.String()) }()
	for i, status := range want {
		method := http.MethodGet
		if i%8 == 6 {
			method = http.MethodHead
		}
		res, err := http.ReadResponse(conn.in, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		if res.StatusCode != status {
			t.Fatalf("answer %d: %d, want %d", i, res.StatusCode, status)
		}
		if res.Close {
			t.Fatalf("answer %d closes the connection", i)
		}
	}
	expectValue(t, p.app(t), e.bucket, "k", inner)
}

// What may be read as one request or as two is refused, or read in one way, and
// nothing that stands in a body is carried out.
func TestAttackSmuggling(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	put(t, p.app(t, token(34)), e.bucket, "kept", "kept")
	target := "/" + e.bucket + "/kept"
	inner := rawRequest(t, p, request{method: http.MethodDelete, target: target, header: carrying(t, token(34))}, "Content-Length: 0\r\n")
	outer := request{method: http.MethodGet, target: "/" + e.bucket + "/none"}
	n := len(inner)
	for name, framing := range map[string]string{
		"length and chunked":    fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n", n+5),
		"chunked and length":    fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n", n+5),
		"two lengths":           fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d\r\n", n+5),
		"lengths in one":        fmt.Sprintf("Content-Length: 0, %d\r\n", n+5),
		"signed length":         fmt.Sprintf("Content-Length: +%d\r\n", n+5),
		"folded chunked":        fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding:\r\n chunked\r\n", n+5),
		"a blank before colon":  fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding : chunked\r\n", n+5),
		"chunked in two":        fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n", n+5),
		"identity":              fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: identity\r\n", n+5),
		"chunked after garbage": fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: \x0bchunked\r\n", n+5),
	} {
		conn := p.dial(t)
		_, _ = io.WriteString(conn, rawRequest(t, p, outer, framing)+"0\r\n\r\n"+inner)
		if res, err := http.ReadResponse(conn.in, nil); err != nil || !res.Close {
			t.Errorf("%s: %+v, %v, want an answer that is the last", name, res, err)
		} else {
			_, _ = io.Copy(io.Discard, res.Body)
			conn.ended()
		}
		conn.Close()
		expectValue(t, p.app(t), e.bucket, "kept", "kept")
	}
}
