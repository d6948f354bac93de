package http1

import (
	"bufio"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// heads are requests, and whether they are plain.
var heads = map[string]bool{
	"GET /b/k HTTP/1.1\r\nHost: a\r\n\r\n": true,
	"PUT /b/k?x=y%20z&x HTTP/1.1\r\nHost: a:9000\r\nContent-Length: 3\r\nExpect: 100-continue\r\nX-Amz-Date: 1\r\n\r\nabc": true,
	"POST //b/../k HTTP/1.1\r\nhost: [::1]:80\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\nGET":                   true,
	"HEAD /%2F%2f HTTP/1.1\r\nHost: a\r\nX: \t b c \r\nEmpty:\r\nx-a: 1\r\nX-A: 2\r\nX-a: 3\r\nUpgrade: h2c\r\n\r\n":       true,
	"DELETE /\xc3\xa4 HTTP/1.1\r\nHost: a\r\nX: \xc3\xa4\r\nContent-Length: 003\r\n\r\nab":                                 true,

	"GET /b/k HTTP/1.1\r\nHost: a\r\n\r":                                               false, // not all of it
	"OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\n":                                            false,
	"get / HTTP/1.1\r\nHost: a\r\n\r\n":                                                false,
	"GET / HTTP/1.0\r\nHost: a\r\n\r\n":                                                false,
	"GET / HTTP/1.1 \r\nHost: a\r\n\r\n":                                               false,
	"GET  / HTTP/1.1\r\nHost: a\r\n\r\n":                                               false,
	"GET / HTTP/1.1\r\n\r\n":                                                           false,
	"GET / HTTP/1.1\r\nHost:\r\n\r\n":                                                  false,
	"GET / HTTP/1.1\r\nHost: a b\r\n\r\n":                                              false,
	"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n":                                     false,
	"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n":                                        false,
	"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n":                                             false,
	"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n":                                            false,
	"GET / HTTP/1.1\nHost: a\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n":                     false,
	"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n":                                          false,
	"GET / HTTP/1.1\r\nHost: a\r\n\nX: b\r\n\r\n":                                      false,
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n":                           false,
	"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n":         false,
	"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\nContent-Length: 3\r\n\r\nabc":  false,
	"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc":   false,
	"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc":                       false,
	"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\nabc":                       false,
	"PUT / HTTP/1.1\r\nHost: a\r\nX: a\r\n Content-Length: 3\r\n\r\nabc":               false,
	"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n":                                     false,
	"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00\r\n\r\n":                                    false,
	"GET / HTTP/1.1\r\nHost: a\r\nPragma: no-cache\r\n\r\n":                            false,
	"PUT / HTTP/1.1\r\nHost: a\r\nTrailer: X\r\nContent-Length: 3\r\n\r\nabc":          false,
	"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", readSize) + "\r\n\r\n":    false, // longer than the buffer
	"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\nabc":      false,
	"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n":                                            false,
	"GET / HTTP/1.1\r\n\r\nHost: a\r\n\r\n":                                            false,
	"GET /\r\nHost: a\r\n\r\n":                                                         false,
	"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX\r\n\r\nabc":                   false,
	"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n: x\r\n\r\nabc":                 false,
	"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX: y\x7f\r\n\r\nabc":            false,
	"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: x\r\n\r\nabc":       false,
	"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX\xc3\xa4: y\r\n\r\nabc":        false,
	"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tz\r\n\r\n":                                 false,
	"GET / HTTP/1.1\r\nHost: a\r\nProxy-Connection: close\r\nKeep-Alive: x\r\n\r\nabc": true,
}

func TestPlainRequest(t *testing.T) {
	t.Parallel()
	for text, plain := range heads {
		if got := alike(t, text); got != plain {
			t.Errorf("%q is plain: %v", text, got)
		}
	}
}

// alike reports whether a request is plain. What is read of it then, and how much, must
// be what net/http reads.
func alike(t *testing.T, text string) bool {
	t.Helper()
	ours, theirs := bufio.NewReaderSize(strings.NewReader(text), readSize), bufio.NewReaderSize(strings.NewReader(text), readSize)
	_, _ = ours.Peek(1)
	before := ours.Buffered()
	got := (&conn{r: ours}).plainRequest()
	if got == nil {
		if ours.Buffered() != before {
			t.Fatalf("%q: %d bytes were read of what is not plain", text, before-ours.Buffered())
		}
		return false
	}
	want, err := http.ReadRequest(theirs)
	if err != nil {
		t.Fatalf("%q is plain, but to net/http: %v", text, err)
	}
	if (got.Body == http.NoBody) != (want.Body == http.NoBody) {
		t.Fatalf("%q has a body: %v, want %v", text, got.Body != http.NoBody, want.Body != http.NoBody)
	}
	data, err := io.ReadAll(got.Body)
	wantData, wantErr := io.ReadAll(want.Body)
	if string(data) != string(wantData) || err != wantErr { //nolint:errorlint // as Read returns it
		t.Fatalf("%q: the body is %q, %v, want %q, %v", text, data, err, wantData, wantErr)
	}
	got.Body, want.Body = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q:\ngot  %+v\nwant %+v", text, got, want)
	}
	left, _ := io.ReadAll(ours)
	wantLeft, _ := io.ReadAll(theirs)
	if string(left) != string(wantLeft) {
		t.Fatalf("%q: %q is left, want %q", text, left, wantLeft)
	}
	return true
}

// FuzzPlainRequest compares what is plain with what net/http reads.
func FuzzPlainRequest(f *testing.F) {
	for text := range heads {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { alike(t, text) })
}
