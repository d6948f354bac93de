package plainhead_test

import (
	"bufio"
	"net/http"
	"net/textproto"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/plainhead"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// lines are those of headers, and the length that they tell of a body; notPlain: they are
// none of ours.
var lines = map[string]int64{
	"":                                 -1,
	"X: a\r\n":                         -1,
	"X:\r\n":                           -1,
	"X: \t a  b\t \r\n":                -1,
	"x: a\r\nX: b\r\nY: c\r\nx: d\r\n": -1,
	"ETAG: a\r\netag: b\r\n":           -1,
	"content-md5: a\r\nX-AMZ-meta-AB: c\r\namz-sdk-request: d\r\n": -1,
	"content-length: 0\r\n":                                        0,
	"Content-Length:\t12 \r\nconnection: KEEP-alive\r\n":           12,
	"Content-Length: 9223372036854775807\r\n":                      1<<63 - 1,
	"X: \xff\xc3\r\n!#$%&'*+-.^_`|~1a: b\r\n":                      -1,
	"Connection: keep-alive\r\nConnection: keep-alive\r\n":         -1,
	"Expect: 100-continue\r\nHost: a\r\nHost: b\r\nUpgrade: c\r\n": -1,

	"X: a":                    notPlain,
	"X: a\n":                  notPlain,
	"X: a\nY: b\r\n":          notPlain,
	"X: a\rY: b\r\n":          notPlain,
	"X\r\n":                   notPlain,
	": a\r\n":                 notPlain,
	"X : a\r\n":               notPlain,
	" X: a\r\n":               notPlain,
	"X: a\r\n b\r\n":          notPlain,
	"X: a\x00\r\n":            notPlain,
	"X\xc3: a\r\n":            notPlain,
	"\r\n":                    notPlain,
	"X: a\r\n\r\n":            notPlain,
	"Content-Length:\r\n":     notPlain,
	"Content-Length: -1\r\n":  notPlain,
	"Content-Length: +1\r\n":  notPlain,
	"Content-Length: 1 1\r\n": notPlain,
	"Content-Length: 1_1\r\n": notPlain,
	"Content-Length: 1,1\r\n": notPlain,
	"Content-Length: 0x1\r\n": notPlain,
	"Content-Length: 1\r\nCONTENT-LENGTH: 1\r\n":      notPlain,
	"Content-Length: 9223372036854775808\r\n":         notPlain,
	"transfer-encoding: chunked\r\n":                  notPlain,
	"Transfer-Encoding:\r\n":                          notPlain,
	"trailer: X\r\n":                                  notPlain,
	"PRAGMA: no-cache\r\n":                            notPlain,
	"Connection: close\r\n":                           notPlain,
	"Connection:\r\n":                                 notPlain,
	"Connection: keep-alive, x\r\n":                   notPlain,
	"Connection: keep-alive\r\nconnection: close\r\n": notPlain,
}

const notPlain = -2

func TestFields(t *testing.T) {
	t.Parallel()
	for text, want := range lines {
		if got := alike(t, text); got != want {
			t.Errorf("%q: the length is %d, want %d", text, got, want)
		}
	}
}

// alike returns the length of the body. The lines must be read as package net/textproto
// reads them.
func alike(t *testing.T, text string) int64 {
	t.Helper()
	h, length, ok := plainhead.Fields(text)
	if !ok {
		return notPlain
	}
	want, err := textproto.NewReader(bufio.NewReader(strings.NewReader(text + "\r\n"))).ReadMIMEHeader()
	if err != nil {
		t.Fatalf("%q is plain, but: %v", text, err)
	}
	if !reflect.DeepEqual(h, http.Header(want)) {
		t.Fatalf("%q: %q, want %q", text, h, want)
	}
	for name, values := range h { // which share their memory
		if _ = append(values, "another"); !reflect.DeepEqual(h, http.Header(want)) {
			t.Fatalf("%q: a value more of %s changes another: %q", text, name, h)
		}
	}
	return length
}

// FuzzFields compares with package net/textproto.
func FuzzFields(f *testing.F) {
	for text := range lines {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { alike(t, text) })
}
