package http1

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// certified returns the configuration of a server with TLS, and of its clients.
func certified(tb testing.TB) (server, client *tls.Config) {
	tb.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	server = &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"http/1.1"}}
	client = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	client.ServerName, client.NextProtos = "example.com", nil
	return server, client
}

func TestTLS(t *testing.T) {
	t.Parallel()
	_, dial := startEither(t, patient(func(w *Response, r *http.Request) {
		if r.TLS == nil || !r.TLS.HandshakeComplete || w.Kernel() {
			t.Errorf("%+v, the kernel moves: %v", r.TLS, w.Kernel())
		}
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Length", "1048576")
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if n, err := w.ReadFrom(io.LimitReader(bytes.NewReader(data), 1<<20)); n != 1<<20 || err != nil {
			t.Error(n, err)
		}
	}), true)
	c := dial()
	for range 2 {
		sent := make(chan error, 1)
		go func() {
			_, err := c.Write(append([]byte("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n"), pattern(1<<20)...))
			sent <- err
		}()
		if _, body := c.reply(http.MethodPut); body != string(pattern(1<<20)) {
			t.Errorf("%d bytes came back", len(body))
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
	c.send("PUT /refused HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n")
	if _, err := c.Write(make([]byte, 8<<20)); err != nil {
		t.Fatal(err)
	}
	if res, _ := c.reply(http.MethodPut); res.StatusCode != http.StatusForbidden || !res.Close {
		t.Errorf("%d, closes: %v", res.StatusCode, res.Close)
	}
}

// Who ends what it sends behind a whole body listens yet, and is answered: the end may
// be read together with the body.
func TestEndBehindBody(t *testing.T) {
	t.Parallel()
	server, trust := certified(t)
	trust.MaxVersion = tls.VersionTLS12 // whose end can be told from a record of data
	ended := make(chan struct{}, 1)
	s := startOn(t, patient(func(w *Response, r *http.Request) {
		<-ended
		data, err := io.ReadAll(r.Body)
		if err != nil || r.Context().Err() != nil {
			t.Errorf("%d bytes, %v, gone: %v", len(data), err, r.Context().Err())
		}
		_, _ = w.Write(data)
	}), tls.NewListener(listen(t), server))
	for range 10 { // for it may be read otherwise
		conn, err := tls.Dial("tcp", s.addr, trust)
		if err != nil {
			t.Fatal(err)
		}
		c := newClient(t, conn)
		c.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
		c.send("abc")
		closeWrite(t, c.Conn)
		ended <- struct{}{}
		if res, body := c.reply(http.MethodPut); res.StatusCode != http.StatusOK || body != "abc" {
			t.Errorf("%d, %q", res.StatusCode, body)
		}
		if got := c.rest(); got != "" {
			t.Errorf("then comes %q", got)
		}
	}
}

// Whoever speaks HTTP to a port of HTTPS is told so.
func TestHTTPToTLS(t *testing.T) {
	t.Parallel()
	s, _ := startEither(t, patient(nil), true)
	for _, method := range []string{"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"} {
		c := s.dial(t)
		c.send(method + " / HTTP/1.1\r\nHost: a\r\n\r\n")
		if got := c.rest(); !strings.HasPrefix(got, "HTTP/1.0 400 Bad Request\r\n\r\n") || !strings.Contains(got, "HTTPS") {
			t.Errorf("%s is answered %q", method, got)
		}
	}
}

// A handshake has the time that a head has.
func TestHandshakeStalls(t *testing.T) {
	t.Parallel()
	config := patient(nil)
	config.HeaderTimeout = short
	config.IdleTimeout = time.Hour
	s, _ := startEither(t, config, true)
	for _, begin := range []string{"", "\x16\x03\x01\x02"} {
		c := s.dial(t)
		c.send(begin)
		if got := c.rest(); got != "" {
			t.Errorf("it is answered %q", got)
		}
	}
}
