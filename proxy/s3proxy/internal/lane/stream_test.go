package lane

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// pieces are a body.
type pieces struct {
	io.Reader

	pieces [][]byte
	err    error // instead of its end
	closed bool
	before func(i int)
}

func (p *pieces) WriteTo(w io.Writer) (n int64, err error) {
	for i, piece := range p.pieces {
		if p.before != nil {
			p.before(i)
		}
		m, err := w.Write(piece)
		if n += int64(m); err != nil {
			return n, err
		}
	}
	return n, p.err
}

func (p *pieces) Close() error { p.closed = true; return nil }

func inPieces(count, size int) *pieces {
	p := &pieces{}
	for i := range count {
		p.pieces = append(p.pieces, bytes.Repeat([]byte{byte('a' + i%26)}, size))
	}
	return p
}

func streamed(ctx context.Context, t *testing.T, p *Pool, body *pieces, length int) (*http.Response, string, error) {
	t.Helper()
	r := request(ctx, http.MethodPut)
	r.Body, r.ContentLength = body, int64(length)
	res, err := p.Stream(r)
	if !body.closed {
		t.Error("the body is not closed")
	}
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res, string(text), err
}

func TestStream(t *testing.T) {
	t.Parallel()
	s := script(t, ok, ok, ok, ok)
	p := s.pool(t)
	for range 2 {
		body := inPieces(5, 100<<10)
		_, text, err := streamed(t.Context(), t, p, body, 500<<10)
		if text != "ok" || err != nil {
			t.Fatalf("%q, %v", text, err)
		}
		if got := <-s.requests; !strings.HasPrefix(got, "PUT ") || !strings.HasSuffix(got, " "+string(bytes.Join(body.pieces, nil))) {
			t.Errorf("%.60q… of %d bytes", got, len(got))
		}
	}
	if n := s.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	// Nor is one used again on which a body was not sent to its end.
	broken := errors.New("broken")
	body := inPieces(2, 10)
	body.err = broken
	if _, _, err := streamed(t.Context(), t, p, body, 30); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	if text, err := ask(t, p, http.MethodPut, []byte("x")); text != "200 ok" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if n := s.conns.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

// early is a server that answers when it has read the first bytes of a request, and
// reads no more.
func early(t *testing.T, answer string) *Pool {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done, hangUp := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { ln.Close(); close(hangUp); <-done })
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		head := make([]byte, 16)
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		_, _ = io.WriteString(conn, answer)
		<-hangUp
	}()
	p := New(Config{Addr: ln.Addr().String(), Dial: new(net.Dialer).DialContext, IdleTimeout: time.Minute, MaxIdle: 2})
	t.Cleanup(p.CloseIdle)
	return p
}

// A server that has answered gets no more of the body, and its answer counts,
// whether it reads on, waits, or hangs up.
func TestStreamAnsweredEarly(t *testing.T) {
	t.Parallel()
	p := early(t, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
	body := inPieces(1000, 100<<10)
	sent := 0
	body.before = func(i int) { sent = i }
	res, text, err := streamed(t.Context(), t, p, body, 1000*(100<<10))
	if err != nil || res.StatusCode != http.StatusForbidden || text != "no" {
		t.Fatalf("%v %q, %v", res, text, err)
	}
	if sent == 999 {
		t.Error("all of the body was sent")
	}
	if len(p.idle) > 0 {
		t.Error("the connection is to be used again")
	}
}

// A server that acknowledges what it does not have is not believed: of a body that
// was not sent to its end, nobody has seen that it is what the client meant.
func TestStreamAcknowledgedEarly(t *testing.T) {
	t.Parallel()
	p := early(t, ok)
	res, _, err := streamed(t.Context(), t, p, inPieces(1000, 100<<10), 1000*(100<<10))
	if err == nil {
		t.Errorf("answered %d", res.StatusCode)
	}
	if len(p.idle) > 0 {
		t.Error("the connection is to be used again")
	}
}

// An answer that is not the one that counts does not end the body, however it comes.
func TestStreamInterim(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	p := New(Config{Addr: ln.Addr().String(), Dial: new(net.Dialer).DialContext})
	const (
		interim, hints = "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
		refusal        = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
	)
	for _, c := range []struct {
		pieces []string
		want   []bool
		left   int // bytes that were not read away
	}{
		{[]string{interim}, []bool{true}, 0},
		{[]string{interim + hints}, []bool{true}, 0},
		{[]string{interim + refusal}, []bool{false}, len(refusal)},
		{[]string{refusal}, []bool{false}, len(refusal)},
		{[]string{interim[:5], interim[5:20], interim[20:] + hints[:3], hints[3:]}, []bool{true, true, true, true}, 0},
		{[]string{interim[:20], interim[20:] + refusal[:3], refusal[3:]}, []bool{true, true, false}, len(refusal)},
		{[]string{hints[:15] + strings.Repeat("x", readSize)}, []bool{false}, readSize},
		{[]string{""}, []bool{false}, 0},
		{[]string{interim[:20], ""}, []bool{true, false}, 20},
	} {
		conn, err := p.get(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		server, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		for i, piece := range c.pieces {
			if _, err := io.WriteString(server, piece); err != nil {
				t.Fatal(err)
			}
			if piece == "" {
				server.Close()
			}
			for !conn.arrived() {
				runtime.Gosched()
			}
			if got := (&outlet{conn: conn}).interim(); got != c.want[i] {
				t.Errorf("%q, piece %d: %v", c.pieces, i, got)
			}
		}
		if left := conn.r.Buffered(); left != c.left {
			t.Errorf("%q: %d bytes are left", c.pieces, left)
		}
		conn.Close()
		server.Close()
	}
}

// A server that takes no more of a body, or gives no more of one, is waited for as
// long as for an answer, and whoever has gone does not wait.
func TestStreamStuck(t *testing.T) {
	t.Parallel()
	p := early(t, "")
	p.config.ResponseTimeout = 100 * time.Millisecond
	if _, _, err := streamed(t.Context(), t, p, inPieces(1000, 100<<10), 1000*(100<<10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("sent to a server that reads nothing: %v", err)
	}

	p = early(t, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab")
	p.config.ResponseTimeout = 2 * time.Second
	if text, err := ask(t, p, http.MethodGet, nil); text != "200 ab" || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read from a server that stops: %q, %v", text, err)
	}

	p = early(t, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	body := inPieces(1000, 100<<10)
	body.before = func(i int) {
		if i == 3 {
			cancel(gone)
		}
	}
	if _, _, err := streamed(ctx, t, p, body, 1000*(100<<10)); !errors.Is(err, gone) {
		t.Errorf("sent by somebody who has gone: %v", err)
	}
}
