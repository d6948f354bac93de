package http1

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// next follows whatever was sent, so that it shows whether the server goes on.
const next = "GET /next HTTP/1.1\r\nHost: next\r\n\r\n"

// lines are heads of which something is odd, without their end.
var lines = []string{
	"GET / HTTP/1.0", "GET / HTTP/1.0\r\nConnection: keep-alive", "GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive", "GET /chunk HTTP/1.0\r\nConnection: keep-alive",
	"HEAD /chunk HTTP/1.0\r\nConnection: keep-alive", "GET / HTTP/1.0\r\nConnection: keep-alive, close", "GET / HTTP/1.2\r\nHost: a", "GET / HTTP/2.0\r\nHost: a",
	"GET / HTTP/0.9\r\nHost: a", "GET /", "GET / HTTP/1.1 \r\nHost: a", "GET / HTTP/1.\r\nHost: a", "GET / http/1.1\r\nHost: a", "PRI * HTTP/2.0", "GET  / HTTP/1.1\r\nHost: a",
	"GET / / HTTP/1.1\r\nHost: a", " GET / HTTP/1.1\r\nHost: a", "G@T / HTTP/1.1\r\nHost: a", "get / HTTP/1.1\r\nHost: a", "GET\t/\tHTTP/1.1\r\nHost: a",
	"GET http://b/p?q HTTP/1.1\r\nHost: a", "GET http://b/p HTTP/1.1", "GET http://b/p HTTP/1.1\r\nHost: a b", "GET http:///p HTTP/1.1\r\nHost: a", "GET x:y HTTP/1.1\r\nHost: a",
	"OPTIONS * HTTP/1.1\r\nHost: a", "GET * HTTP/1.1\r\nHost: a", "CONNECT b:80 HTTP/1.1\r\nHost: a", "CONNECT b:80 HTTP/1.1", "CONNECT /p HTTP/1.1", "GET b:80 HTTP/1.1\r\nHost: a",
	"GET /%zz HTTP/1.1\r\nHost: a", "GET /a%2fb%20c?x=%zz#f HTTP/1.1\r\nHost: a", "GET //b/p HTTP/1.1\r\nHost: a", "GET /../p HTTP/1.1\r\nHost: a", "GET /\x7f HTTP/1.1\r\nHost: a", "GET /\xc3\xa4 HTTP/1.1\r\nHost: a",
	"GET / HTTP/1.1", "GET / HTTP/1.1\r\nHost:", "GET / HTTP/1.1\r\nHost: a\r\nHost: a", "GET / HTTP/1.1\r\nHost: a\r\nhost: b", "GET / HTTP/1.1\r\nHost: a b", "GET / HTTP/1.1\r\nHost: a/b", "GET / HTTP/1.1\r\nHost: a,b",
	"GET / HTTP/1.1\r\nHost: \xc3\xa4", "GET / HTTP/1.1\r\nHost : a", "GET / HTTP/1.1\r\nHost: [::1]:80", "GET / HTTP/1.1\r\n Host: a", "GET / HTTP/1.0\r\nHost: a b",
	"GET / HTTP/1.1\nHost: a", "GET / HTTP/1.1\r\nHost: a\nX: b", "GET / HTTP/1.1\rHost: a", "GET / HTTP/1.1\r\nHost: a\rX: b", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b", "GET / HTTP/1.1\r\nHost: a\r\nX\x00: b",
	"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b", "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb", "GET / HTTP/1.1\r\nHost: a\r\nX : b", "GET / HTTP/1.1\r\nHost: a\r\n: b", "GET / HTTP/1.1\r\nHost: a\r\nX", "GET / HTTP/1.1\r\nHost: a\r\nX:",
	"GET / HTTP/1.1\r\nHost: a\r\nX:  b \t", "GET / HTTP/1.1\r\nHost: a\r\nx-A: 1\r\nX-a: 2", "GET / HTTP/1.1\r\nHost: a\r\nPragma: no-cache", "GET / HTTP/1.1\r\nHost: a\r\nX: \xc3\xa4\x80", "GET / HTTP/1.1\r\nHost: a\r\nX_y: 1",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: close", "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: upgrade",
	"\r\nGET / HTTP/1.1\r\nHost: a", "GET / HTTP/1.1\r\nHost: a\r\nConnection: x close", "GET / HTTP/1.1\r\nHost:\r\nExpect: x", "GET http://b/ HTTP/1.1\r\nExpect: x", "CONNECT \" HTTP/1.0", "PUT / HTTP/1.1\r\nHost:\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n0",
}

// bodies are lines that say how long a body is, and bodies, behind a POST.
var bodies = []string{
	"Content-Length: 3\r\n\r\nabc", "Content-Length: 3\r\n\r\nabc\r\n", "Content-Length: 3\r\n\r\nabc\r\n\r\n", "Content-Length: 3\r\n\r\nabc\n", "Content-Length: 3\r\n\r\nabc\r\n\r\n\r\n", "Content-Length: 3\r\n\r\nab",
	"Content-Length: 0\r\n\r\n", "Content-Length: 003\r\n\r\nabc", "Content-Length: +3\r\n\r\nabc", "Content-Length: -3\r\n\r\nabc", "Content-Length:  3 \r\n\r\nabc", "Content-Length: 3,3\r\n\r\nabc", "Content-Length: 3, 3\r\n\r\nabc",
	"Content-Length: 0x3\r\n\r\nabc", "Content-Length: 3_0\r\n\r\nabc", "Content-Length:\r\n\r\nabc", "Content-Length: 3\x00\r\n\r\nabc", "Content-Length: 9223372036854775808\r\n\r\nabc", "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
	"Content-Length: 3\r\nContent-Length:  3\r\n\r\nabc", "Content-Length: 3\r\ncontent-length: 4\r\n\r\nabc", "Content-Length : 3\r\n\r\nabc", "Content-Length: 3\n\nabc", "Content-Length: 3\r\n\nabc", "\r\nabc",
	"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: \tchunked\t\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding:\x0bchunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked, identity\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: identity, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc", "Transfer-Encoding: gzip\r\n\r\nabc",
	"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding:\r\n chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"Transfer-Encoding:\r\nContent-Length: 3\r\n\r\nabc", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nabc", "Content-Length: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"Transfer-Encoding : chunked\r\nContent-Length: 3\r\n\r\nabc", "Transfer_Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc", "X: y\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", "Transfer-Encoding: xchunked\r\nContent-Length: 3\r\n\r\nabc",
	"Transfer-Encoding: chunked\r\n\r\n3;a=b;c=\"d\"\r\nabc\r\n0;x\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
	"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "Transfer-Encoding: chunked\r\n\r\n3\r\nab", "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc", "Transfer-Encoding: chunked\r\n\r\n-1\r\nabc",
	"Transfer-Encoding: chunked\r\nTrailer: A, b\r\n\r\n3\r\nabc\r\n0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: 1\r\n\r\n", "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\nbad trailer\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\nA: 1\n\n", "Trailer: A\r\nContent-Length: 3\r\n\r\nabc",
	"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "Expect: 100-Continue\r\nContent-Length: 0\r\n\r\n", "Expect: 100-continue\r\n\r\n", "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "Expect: x\r\nContent-Length: 3\r\n\r\nabc",
	"Expect:\r\nContent-Length: 3\r\n\r\nabc", "Expect: x, 100-continue\r\nContent-Length: 3\r\n\r\nabc", "Expect: 100-continue x\r\nContent-Length: 3\r\n\r\nabc", "Expect: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "Expect: 100-continue\r\nContent-Length: 3\r\n\r\na",
}

// seeds are all requests that are compared.
func seeds() []string {
	all := []string{
		"", "\r\n", "\r\n\r\n", "\n", "\x00", "GET", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a", "GET / HTTP/1.1\r\nHost: a\r\n", "\x16\x03\x01\x02\x00\x01", "unsupported transfer encoding\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	}
	for _, head := range lines {
		all = append(all, head+"\r\n\r\n")
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT", "PURGE"} {
		all = append(all, method+" /a?b=c&d HTTP/1.1\r\nHost: a\r\n\r\n", method+" /none HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", strings.Repeat(method+" /chunk HTTP/1.1\r\nHost: a\r\n\r\n", 3))
	}
	for _, body := range bodies {
		for _, begin := range []string{"POST / HTTP/1.1\r\nHost: a\r\n", "PUT /chunk HTTP/1.1\r\nHost: a\r\n", "POST / HTTP/1.0\r\nConnection: keep-alive\r\n"} {
			all = append(all, begin+body)
		}
	}
	for _, path := range []string{"/none", "/part", "/partchunk"} {
		for _, body := range []string{bodies[0], "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc"} {
			all = append(all, "PUT "+path+" HTTP/1.1\r\nHost: a\r\n"+body)
		}
	}
	return all
}

// pieces is in how many bytes at a time a request arrives: by one its head is never there
// as a whole.
var pieces = []int{1, 7, 1 << 20}

func TestRequests(t *testing.T) {
	t.Parallel()
	p := newPair(t, 64<<10)
	var all sync.WaitGroup
	defer all.Wait()
	for _, raw := range seeds() {
		for _, piece := range pieces { // at once, for net/http waits before it closes some
			all.Go(func() {
				p.compare(t, []byte(raw), piece)
				p.compare(t, []byte(raw+next), piece)
			})
		}
	}
}

// A head may be so long, and not much longer, wherever it is long. What follows it does
// not count.
func TestLongHeads(t *testing.T) {
	t.Parallel()
	const most = 16 << 10
	p := newPair(t, most)
	var all sync.WaitGroup
	defer all.Wait()
	for what, head := range map[string]string{
		"line": "GET /%s HTTP/1.1\r\nHost: a\r\n\r\n", "value": "GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n", "name": "GET / HTTP/1.1\r\nHost: a\r\n%s: x\r\n\r\n", "method": "%s / HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		for size, want := range map[int]int{most / 2: http.StatusOK, most: http.StatusOK, 2 * most: http.StatusRequestHeaderFieldsTooLarge, 8 * most: http.StatusRequestHeaderFieldsTooLarge} {
			raw := []byte(next + fmt.Sprintf(head, strings.Repeat("a", size)) + next + strings.Repeat("x", 2*most))
			for _, piece := range []int{1 << 10, 1 << 20} {
				all.Go(func() {
					ours, theirs := p.ask(t, raw, piece)
					if ours, theirs := at(ours, 1).status, at(theirs, 1).status; ours != want || theirs != want {
						t.Errorf("%s of %d bytes: %d, %d, want %d", what, size, ours, theirs, want)
					}
				})
			}
		}
	}
}

// FuzzRequests compares with net/http's server.
func FuzzRequests(f *testing.F) {
	for i, raw := range seeds() {
		f.Add([]byte(raw), byte(i))
	}
	p := newPair(f, 64<<10)
	f.Fuzz(func(t *testing.T, raw []byte, piece byte) {
		if len(raw) > 4<<10-len(next) { // where the sizes of buffers tell, of trailers above all
			return
		}
		size := 1 << 20
		if piece < 128 {
			size = int(piece) + 1
		}
		p.compare(t, raw, size)
		p.compare(t, append(raw[:len(raw):len(raw)], next...), size)
	})
}
