package lane

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// Nobody takes for an answer what a server has sent behind the one before, even where
// TLS has read it from the socket already.
func TestLeftOverTLS(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", 2*readSize)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			_, _ = io.WriteString(w, "stored")
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { conn.Close() })
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 16384\r\n\r\n")
		_, _ = io.WriteString(conn, body[:readSize])
		_, _ = io.WriteString(conn, body[readSize:]+ok) // in one record
	}))
	server.TLS = &tls.Config{DynamicRecordSizingDisabled: true, MinVersion: tls.VersionTLS12}
	p, conns := secured(t, server)
	res, err := p.Do(request(t.Context(), http.MethodGet), nil)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, len(body))
	if _, err := io.ReadFull(res.Body, data); err != nil || string(data) != body {
		t.Fatalf("%.60q, %v", data, err)
	}
	res.Body.Close()
	if got, err := ask(t, p, http.MethodPut, []byte("v")); got != "200 stored" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if n := conns.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

// A server that does not answer in time has not hung up: it is not asked again.
func TestSilentIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	s := script(t, ok)
	p := s.pool(t)
	if got, err := ask(t, p, http.MethodGet, nil); got != "200 ok" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	p.config.ResponseTimeout = 100 * time.Millisecond
	if _, err := ask(t, p, http.MethodGet, nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if n := len(s.requests); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// Without a length what follows the head would be requests of their own.
func TestStreamWithoutLength(t *testing.T) {
	t.Parallel()
	s := script(t, ok)
	p := s.pool(t)
	if res, _, err := streamed(t.Context(), t, p, inPieces(1, 10), -1); err == nil {
		t.Errorf("answered %d", res.StatusCode)
	}
	if n := s.conns.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// A head that does not end is not read for ever.
func TestLongHead(t *testing.T) {
	t.Parallel()
	line := "X-Amz-Meta-A: " + strings.Repeat("a", 1000) + "\r\n"
	long := func(lines int) string {
		return "HTTP/1.1 200 OK\r\n" + strings.Repeat(line, lines) + "Content-Length: 2\r\n\r\nok"
	}
	s := script(t, long(100), long(4<<10))
	p := s.pool(t)
	if got, err := ask(t, p, http.MethodGet, nil); got != "200 ok" || err != nil {
		t.Errorf("a long head: %q, %v", got, err)
	}
	if got, err := ask(t, p, http.MethodPut, []byte("v")); err == nil {
		t.Errorf("one that is too long: %q", got)
	}
}
