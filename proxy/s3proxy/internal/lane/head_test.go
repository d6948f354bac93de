package lane

import (
	"bufio"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// heads are answers, and whether they are plain.
var heads = map[string]bool{
	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc":                                                                   true,
	"HTTP/1.1 200 OK\r\nETag: \"x\"\r\ncontent-length:0\r\nx-amz-meta-a:  b c\t\r\nEmpty:\r\n\r\n":                      true,
	"HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\nConnection: Keep-Alive\r\nContent-Range: bytes 0-2/9\r\n\r\n": true,
	"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 1\r\n\r\nx":                                                    true,
	"HTTP/1.1 200 \r\nContent-Length: 3\r\nX: =?utf-8?q?=C3=A4?=\r\nY: \xc3\xa4\r\n\r\nabc":                             true,

	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r":                                          false, // not all of it
	"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n":                                        false,
	"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":           false,
	"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n":                                false,
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n":                              false,
	"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\n":                                           false,
	"HTTP/1.1 2000 OK\r\nContent-Length: 3\r\n\r\n":                                       false,
	"HTTP/1.1 2x0 OK\r\nContent-Length: 3\r\n\r\n":                                        false,
	"HTTP/1.1 200 OK\r\n\r\n":                                                             false, // to the end of the connection
	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n":                   false,
	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n":                   false,
	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": false,
	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc":                false,
	"HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc":                                    false,
	"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nabc":                   false,
	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-A: 1\r\nx-a: 2\r\nX-A: 1\r\n\r\nabc":       true,
	"HTTP/1.1 200 OK\r\nX: a\r\n  continued\r\nContent-Length: 3\r\n\r\nabc":              false,
	"HTTP/1.1 200 OK\r\nX: a\nContent-Length: 3\r\n\r\nabc":                               false,
	"HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 3\r\n\r\nabc":                            false,
	"HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 3\r\n\r\nabc":                         false,
	"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 3\r\n\r\nabc":                        false,
	"HTTP/1.1 200 OK\r\nPragma: no-cache\r\nContent-Length: 3\r\n\r\nabc":                 false,
	"HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 3\r\n\r\nabc":                          false,
	"HTTP/1.1 200 O\rK\r\nContent-Length: 3\r\n\r\nabc":                                   false,
}

func TestPlainHead(t *testing.T) {
	t.Parallel()
	for text, plain := range heads {
		if got := alike(t, text); got != plain {
			t.Errorf("%q is plain: %v", text, got)
		}
	}
}

// alike reports whether the head of an answer is plain. What is read of it then, and
// how much, must be what net/http reads.
func alike(t *testing.T, text string) bool {
	t.Helper()
	r := &http.Request{Method: http.MethodGet}
	ours, theirs := bufio.NewReaderSize(strings.NewReader(text), readSize), bufio.NewReaderSize(strings.NewReader(text), readSize)
	_, _ = ours.Peek(1)
	before := ours.Buffered()
	got := plainHead(&conn{r: ours}, r)
	if got == nil {
		if ours.Buffered() != before {
			t.Fatalf("%q: %d bytes were read of what is not plain", text, before-ours.Buffered())
		}
		return false
	}
	want, err := http.ReadResponse(theirs, r)
	if err != nil {
		t.Fatalf("%q is plain, but to net/http: %v", text, err)
	}
	if got.Status != want.Status || got.StatusCode != want.StatusCode || got.Proto != want.Proto || got.Close != want.Close ||
		got.ContentLength != want.ContentLength || want.TransferEncoding != nil || !reflect.DeepEqual(got.Header, want.Header) {
		t.Fatalf("%q:\ngot  %+v\nwant %+v", text, got, want)
	}
	if ours.Buffered() != theirs.Buffered() {
		t.Fatalf("%q: %d bytes are left, want %d", text, ours.Buffered(), theirs.Buffered())
	}
	return true
}

func FuzzPlainHead(f *testing.F) {
	for text := range heads {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { alike(t, text) })
}

func BenchmarkReadHead(b *testing.B) {
	const text = "HTTP/1.1 200 OK\r\nServer: VERSITYGW\r\nDate: Mon, 30 Nov 2026 07:00:00 GMT\r\nContent-Type: application/octet-stream\r\nContent-Length: 4096\r\n" +
		"Etag: \"0123456789abcdef0123456789abcdef\"\r\nLast-Modified: Mon, 30 Nov 2026 07:00:00 GMT\r\nAccept-Ranges: bytes\r\nX-Amz-Request-Id: 0123456789ABCDEF\r\n" +
		"X-Amz-Meta-Fence: fm1:1:33:33:h:i:0123456789abcdef\r\nX-Amz-Storage-Class: STANDARD\r\nx-amz-request-id: 0123456789ABCDEF\r\n\r\n"
	r := &http.Request{Method: http.MethodGet}
	in := strings.NewReader(text)
	c := &conn{r: bufio.NewReaderSize(in, readSize)}
	run := func(name string, read func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				in.Reset(text)
				c.r.Reset(in)
				_, _ = c.r.Peek(1)
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("ours", func() error { _, err := readHead(c, r); return err })
	run("net/http", func() error { _, err := http.ReadResponse(c.r, r); return err })
}
