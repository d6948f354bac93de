package http1

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// echo answers with what it has seen of a request. The path says how much of the body it
// reads, and how it answers.
func echo(w http.ResponseWriter, r *http.Request) {
	var body []byte
	var err error
	switch {
	case strings.Contains(r.URL.Path, "none"):
	case strings.Contains(r.URL.Path, "part"):
		body = make([]byte, 1)
		_, _ = r.Body.Read(body)
	default:
		body, err = io.ReadAll(r.Body)
	}
	text := fmt.Sprintf("%s %q path=%q query=%q host=%q %s\n%q\nlength=%d %q trailer=%q close=%v body=%q broken=%v",
		r.Method, r.RequestURI, r.URL.Path, r.URL.RawQuery, r.Host, r.Proto, r.Header, r.ContentLength, r.TransferEncoding, r.Trailer, r.Close, body, err != nil)
	h := w.Header()
	h.Set(echoed, strconv.Itoa(len(text)))
	for name, value := range map[string]string{
		echoedMethod: r.Method, echoedTarget: r.RequestURI, echoedHost: r.Host, echoedExpect: strings.Join(r.Header["Expect"], "|"),
		echoedLength: strconv.FormatInt(r.ContentLength, 10), echoedConnection: strings.Join(r.Header["Connection"], "|"), echoedProto: r.Proto,
	} {
		h.Set(name, value)
	}
	if !strings.Contains(r.URL.Path, "chunk") {
		h.Set("Content-Length", strconv.Itoa(len(text)))
	}
	half := len(text) / 2
	_, _ = io.WriteString(w, text[:half])
	if strings.Contains(r.URL.Path, "chunk") {
		w.(http.Flusher).Flush()
	}
	_, _ = io.WriteString(w, text[half:])
}

// Lines of its answers.
const (
	echoed           = "Echo"
	echoedConnection = "Echo-Connection"
	echoedProto      = "Echo-Proto"
	echoedMethod     = "Echo-Method"
	echoedTarget     = "Echo-Target"
	echoedHost       = "Echo-Host"
	echoedExpect     = "Echo-Expect"
	echoedLength     = "Echo-Length"
)

// answered is an answer of a server.
type answered struct {
	status int
	header http.Header
	body   string // of the handler's
	closes bool
	asked  bool   // for the body before, by a 100 Continue
	sent   string // by the client, in all
	last   bool   // of its connection
}

func (a *answered) String() string {
	return fmt.Sprintf("%d closes=%v asked=%v %s", a.status, a.closes, a.asked, a.body)
}

func (a *answered) handled() bool { return a.header.Get(echoed) != "" }

// parse reads all answers of a connection. None may be cut off.
func parse(data []byte) (all []*answered, err error) {
	for asked := false; len(data) > 0; {
		in := bytes.NewReader(data)
		r := bufio.NewReader(in)
		res, err := http.ReadResponse(r, &http.Request{Method: http.MethodHead})
		if err != nil {
			return all, fmt.Errorf("%q: %w", data, err)
		}
		if res.Header.Get(echoedMethod) != http.MethodHead {
			in.Reset(data)
			r.Reset(in)
			if res, err = http.ReadResponse(r, nil); err != nil {
				return all, fmt.Errorf("%q: %w", data, err)
			}
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return all, fmt.Errorf("%q: %w", data, err)
		}
		data = data[len(data)-r.Buffered()-in.Len():]
		if res.StatusCode == http.StatusContinue && len(data) > 0 {
			asked = true
			continue
		}
		a := &answered{status: res.StatusCode, header: res.Header, closes: res.Close, asked: asked}
		if a.handled() {
			a.body = string(body)
		}
		all, asked = append(all, a), false
	}
	return all, nil
}

// pair is this package's server and net/http's, with the same handler.
type pair struct{ ours, theirs *memories }

// newPair starts both until the test ends. A head may have so many bytes, and some.
func newPair(tb testing.TB, maxHeader int) *pair {
	tb.Helper()
	p := &pair{newMemories(), newMemories()}
	config := patient(func(w *Response, r *http.Request) { echo(w, r) })
	config.MaxHeader = maxHeader
	s := New(config)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- s.Serve(ctx, p.ours) }()
	theirs := &http.Server{
		Handler: http.HandlerFunc(echo), DisableGeneralOptionsHandler: true, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = theirs.Serve(p.theirs) }()
	tb.Cleanup(func() {
		theirs.Close()
		<-ended
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	return p
}

// ask sends the same to both, which reaches them in pieces of so many bytes.
func (p *pair) ask(tb testing.TB, raw []byte, piece int) (ours, theirs []*answered) {
	tb.Helper()
	mine, other := newMemory(raw, piece), newMemory(raw, piece)
	p.ours.conns <- mine
	p.theirs.conns <- other
	ours, err := parse(mine.answers())
	if err != nil {
		tb.Errorf("%q: ours: %v", raw, err)
	}
	theirs, err = parse(other.answers())
	if err != nil {
		tb.Errorf("%q: theirs: %v", raw, err)
	}
	return ours, theirs
}

// compare reports what both answer differently, and is no difference that is intended.
func (p *pair) compare(tb testing.TB, raw []byte, piece int) {
	tb.Helper()
	ours, theirs := p.ask(tb, raw, piece)
	for i := 0; i < len(ours) || i < len(theirs); i++ {
		mine, other := at(ours, i), at(theirs, i)
		mine.sent, mine.last = string(raw), i >= len(ours)-1
		if mine.status == other.status && mine.body == other.body && mine.handled() == other.handled() && mine.closes == other.closes &&
			(mine.asked == other.asked || needless(mine, other)) {
			continue
		}
		if intended(mine, other) == "" {
			tb.Errorf("%q in pieces of %d: answer %d differs\nours   %v\ntheirs %v", raw, piece, i, mine, other)
		}
		return // where one of them goes on, and the other does not
	}
}

// at returns an answer; one that says nothing if there is none.
func at(all []*answered, i int) *answered {
	if i < len(all) {
		return all[i]
	}
	return new(answered)
}
