package http1

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Behind a body whose length was told twice nobody knows what comes: who relays it may
// have gone by the other one (RFC 9112, 6.1 and 6.3). One that was told once is no
// reason to close a connection, however it was told.
func TestLengthToldTwice(t *testing.T) {
	t.Parallel()
	const chunks = "3\r\nabc\r\n0\r\n\r\n"
	long := "X: " + strings.Repeat("x", 2*readSize) + "\r\n"
	var all sync.WaitGroup
	defer all.Wait()
	for lines, closes := range map[string]bool{
		"Transfer-Encoding: chunked\r\n":                                  false,
		"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n":             true,
		"content-length: 18\r\nX: y\r\nTRANSFER-ENCODING: Chunked\r\n":    true,
		"Content-Length: 3\nTransfer-Encoding: chunked\n":                 true,
		"Content-Length:\r\n 3\r\nTransfer-Encoding: chunked\r\n":         true,
		long + "Transfer-Encoding: chunked\r\n":                           false,
		"Content-Length: 3\r\n" + long + "Transfer-Encoding: chunked\r\n": true,
		"Transfer-Encoding: chunked\r\n" + long + "Content-Length: 3\r\n": true,
		"Transfer-Encoding: chunked\r\nX: y\r\n Content-Length: 3\r\n":    false, // that is more of X
		"Transfer-Encoding: chunked\r\nX-Content-Length: 3\r\n":           false,
	} {
		for _, piece := range pieces {
			all.Go(func() {
				handled := 0
				conn := newMemory([]byte("PUT / HTTP/1.1\r\nHost: a\r\n"+lines+"\r\n"+chunks+get), piece)
				answers := answersOf(t, conn, func(w *Response, r *http.Request) {
					if data, err := io.ReadAll(r.Body); handled == 0 && (string(data) != "abc" || err != nil) {
						t.Errorf("%.80q: %q, %v", lines, data, err)
					}
					handled++
				})
				if len(answers) == 0 || answers[0].status != http.StatusOK || answers[0].closes != closes || len(answers) == 1 != closes || handled != len(answers) {
					t.Errorf("%.80q in pieces of %d: %v of %d handled", lines, piece, answers, handled)
				}
			})
		}
	}
}

// What a target says of a host is what counts, but there has to be a Host line for it,
// and one that is a host (RFC 9112, 3.2).
func TestHostBesideTarget(t *testing.T) {
	t.Parallel()
	long := "X: " + strings.Repeat("x", 2*readSize) + "\r\n"
	for head, want := range map[string]int{
		"GET http://b/p HTTP/1.1\r\nHost: b\r\n":               http.StatusOK,
		"GET http://b/p HTTP/1.1\r\nHost: a\r\n":               http.StatusOK,
		"GET http://b/p HTTP/1.1\r\nHost:\r\n":                 http.StatusOK,
		"GET http://b/p HTTP/1.1\r\n" + long + "hOST: a\r\n":   http.StatusOK,
		"GET http://b/p HTTP/1.0\r\n":                          http.StatusOK,
		"GET http://b/p HTTP/1.1\r\n":                          http.StatusBadRequest,
		"GET http://b/p HTTP/1.1\r\nX: a\r\n Host: a\r\n":      http.StatusBadRequest,
		"GET http://b/p HTTP/1.1\r\nX-Host: a\r\n":             http.StatusBadRequest,
		"GET http://b/p HTTP/1.1\r\nHost: b\r\nHost: b\r\n":    http.StatusBadRequest,
		"GET http://b/p HTTP/1.1\r\nHost: a b\r\n":             http.StatusBadRequest,
		"GET http://b/p HTTP/1.1\r\nHost: a\r\n b\r\n":         http.StatusBadRequest,
		"GET http://b/p HTTP/1.0\r\nHost: a/b\r\n":             http.StatusBadRequest,
		"GET http://b/p HTTP/1.1\r\n" + long + "Host: a b\r\n": http.StatusBadRequest,
		"CONNECT b:80 HTTP/1.1\r\n":                            http.StatusBadRequest,
		"CONNECT b:80 HTTP/1.1\r\nHost: b:80\r\n":              http.StatusOK,
		"GET / HTTP/1.1\r\n":                                   http.StatusBadRequest,
		"GET / HTTP/1.1\r\nX: a\r\n":                           http.StatusBadRequest,
	} {
		for _, piece := range pieces {
			conn := newMemory([]byte(head+"\r\n"), piece)
			answers := answersOf(t, conn, func(_ *Response, r *http.Request) {
				if host := r.Host; want != http.StatusOK || host != "b" && host != "b:80" {
					t.Errorf("%.80q is handled, for %q", head, host)
				}
			})
			if len(answers) != 1 || answers[0].status != want {
				t.Errorf("%.80q in pieces of %d: %v, want %d", head, piece, answers, want)
			}
		}
	}
}

// answersOf are the answers of a handler to what comes on a connection.
func answersOf(t *testing.T, conn *memory, handle func(w *Response, r *http.Request)) []*answered {
	t.Helper()
	ln := newMemories()
	s := startOn(t, patient(handle), ln)
	ln.conns <- conn
	answers, err := parse(conn.answers())
	if err != nil {
		t.Error(err)
	}
	s.Shutdown()
	return answers
}
