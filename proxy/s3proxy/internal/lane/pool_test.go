package lane

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// What is idle is bounded, and closed in time.
func TestIdle(t *testing.T) {
	t.Parallel()
	s := script(t, ok, ok, ok, ok)
	p := s.pool(t)
	var open []*http.Response
	for range 3 {
		res, err := p.Do(request(t.Context(), http.MethodGet), nil)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, res)
	}
	for _, res := range open {
		_, _ = io.ReadAll(res.Body)
		res.Body.Close()
	}
	if n := len(p.idle); n != 2 {
		t.Errorf("%d are idle", n)
	}
	p.mu.Lock()
	p.config.IdleTimeout = time.Nanosecond
	p.mu.Unlock()
	p.sweep()
	if n := len(p.idle); n != 0 {
		t.Errorf("%d are idle after their time", n)
	}
	if got, err := ask(t, p, http.MethodGet, nil); err != nil || got != "200 ok" {
		t.Errorf("%q, %v", got, err)
	}
}

// Over TLS it is the same; what is read directly is not.
func TestTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	p, conns := secured(t, server)
	for range 3 {
		res, err := p.Do(request(t.Context(), http.MethodGet), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.(*Body).Direct(1, 0) != nil {
			t.Error("TLS is read past")
		}
		if data, err := io.ReadAll(res.Body); err != nil || string(data) != "ok" {
			t.Errorf("%q, %v", data, err)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	other := New(Config{
		Addr: server.Listener.Addr().String(), TLS: &tls.Config{ServerName: "example.com", MinVersion: tls.VersionTLS12}, Dial: new(net.Dialer).DialContext,
		HandshakeTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxIdle: 1,
	})
	unreached := (*net.OpError)(nil)
	if _, err := ask(t, other, http.MethodGet, nil); !errors.As(err, &unreached) || unreached.Op != "dial" {
		t.Errorf("an unknown authority: %v", err)
	}
}
