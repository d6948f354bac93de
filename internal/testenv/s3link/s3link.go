// Package s3link is a link to an S3 server that understands requests: it counts
// them by what they ask for, loses replies, holds a request back until long
// after its client gave up, and answers in the server's place.
//
// It passes on what it gets byte for byte, the Host that a signature covers
// included. What the connection itself does (freeze, delay, refuse) is package
// link's business: put one before it or behind it.
package s3link

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Link is such a link. It is safe for use by many goroutines.
type Link struct {
	tb        testing.TB
	target    string
	addr      string
	transport *http.Transport
	ending    chan struct{}

	running sync.WaitGroup

	mu       sync.Mutex
	ended    bool
	requests []Request
	faults   []*fault
}

// fault is what happens to the left-th request that matches.
type fault struct {
	match func(Request) bool
	left  int
	serve func(w http.ResponseWriter, r *http.Request)
}

// New opens a link to target, host:port. It ends with the test.
func New(tb testing.TB, target string) *Link {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("s3link: open link: %v", err)
	}
	l := &Link{
		tb: tb, target: target, addr: listener.Addr().String(), ending: make(chan struct{}),
		// A connection for each request: one that the server closes between
		// two of them would be a fault that nobody asked for.
		transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}
	server := &http.Server{Handler: http.HandlerFunc(l.serve)}
	l.running.Go(func() { _ = server.Serve(listener) })
	tb.Cleanup(func() {
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
		close(l.ending)
		server.Close()
		l.running.Wait()
	})
	return l
}

// Endpoint is the link's host:port, to be used in place of the server's.
func (l *Link) Endpoint() string { return l.addr }

// Requests are the requests so far, in the order in which they came.
func (l *Link) Requests() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.requests)
}

// Ops are the names of the requests so far.
func (l *Link) Ops() []string {
	var ops []string
	for _, r := range l.Requests() {
		ops = append(ops, r.Op)
	}
	return ops
}

// Count counts the requests so far of any of the names; all without one.
func (l *Link) Count(names ...string) int {
	n := 0
	for _, r := range l.Requests() {
		if Op(names...)(r) {
			n++
		}
	}
	return n
}

// Forget begins to count again from 0.
func (l *Link) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = nil
}

// DropReply loses the reply to the n-th matching request from now, 1 being the
// next: the server gets it and answers, the client's connection is cut.
func (l *Link) DropReply(match func(Request) bool, n int) {
	l.add(match, n, func(_ http.ResponseWriter, r *http.Request) {
		if res, err := l.send(r, r.Body); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		cut()
	})
}

// SpoilReply lets the server act on the n-th matching request, and answers it
// with an error of its own: a status, 200 included, and a code of S3's.
func (l *Link) SpoilReply(match func(Request) bool, n, status int, code string) {
	l.add(match, n, func(w http.ResponseWriter, r *http.Request) {
		if res, err := l.send(r, r.Body); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		answer(w, r, status, code)
	})
}

// Answer answers the n-th matching request, when it has read all of it, with an
// error. The server never hears of it.
func (l *Link) Answer(match func(Request) bool, n, status int, code string) {
	l.add(match, n, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			cut()
		}
		answer(w, r, status, code)
	})
}

// CutBody cuts the n-th matching request on both sides when after bytes of its
// body have passed. The last byte never passes.
func (l *Link) CutBody(match func(Request) bool, n int, after int64) {
	l.add(match, n, func(_ http.ResponseWriter, r *http.Request) {
		some := io.LimitReader(r.Body, min(after, r.ContentLength-1))
		if res, err := l.send(r, io.MultiReader(some, broken{})); err == nil {
			res.Body.Close() // it answered early
		}
		cut()
	})
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("cut here") }

func (l *Link) add(match func(Request) bool, n int, serve func(http.ResponseWriter, *http.Request)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, &fault{match, n, serve})
}

func (l *Link) serve(w http.ResponseWriter, r *http.Request) {
	if !l.begin() {
		cut()
	}
	defer l.running.Done()
	if f := l.arrived(read(r)); f != nil {
		f.serve(w, r)
		return
	}
	res, err := l.send(r, r.Body)
	if err != nil {
		cut() // as the server's own connection was
	}
	reply(w, res)
}

// begin says whether the link may still take a request; its end waits for those
// that have begun.
func (l *Link) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.running.Add(1)
	}
	return !l.ended
}

// arrived counts a request and returns what is to happen to it, nil if nothing.
func (l *Link) arrived(r Request) *fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
	var now *fault
	l.faults = slices.DeleteFunc(l.faults, func(f *fault) bool {
		if !f.match(r) {
			return false
		}
		f.left--
		if f.left == 0 && now == nil {
			now = f
		}
		return f.left <= 0
	})
	return now
}

// send sends a client's request to the server.
func (l *Link) send(r *http.Request, body io.Reader) (*http.Response, error) {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	req := (&http.Request{
		Method: r.Method, Host: r.Host, Header: r.Header.Clone(),
		URL:           &url.URL{Scheme: "http", Host: l.target, Opaque: path, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery},
		Body:          io.NopCloser(body),
		ContentLength: r.ContentLength,
	}).WithContext(r.Context())
	if r.ContentLength == 0 {
		req.Body = http.NoBody
	}
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header.Set("User-Agent", "") // none of Go's
	}
	return l.transport.RoundTrip(req)
}

// reply gives the server's reply to the client.
func reply(w http.ResponseWriter, res *http.Response) {
	defer res.Body.Close()
	header := w.Header()
	for name, values := range res.Header {
		if name != "Connection" {
			header[name] = values
		}
	}
	w.WriteHeader(res.StatusCode)
	if _, err := io.Copy(w, res.Body); err != nil {
		cut()
	}
}

// cut closes the client's connection in place of an answer, or of the rest of
// it.
func cut() { panic(http.ErrAbortHandler) }

func answer(w http.ResponseWriter, r *http.Request, status int, code string) {
	var body bytes.Buffer
	fmt.Fprintf(&body, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>said by the link</Message><Resource>%s</Resource></Error>`, code, r.URL.EscapedPath())
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body.Bytes())
	}
}
