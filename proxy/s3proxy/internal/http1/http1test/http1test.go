// Package http1test starts servers of package http1 for tests.
package http1test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1"
)

// Handler answers a request.
type Handler func(w *http1.Response, r *http.Request)

// Start serves on loopback until the test ends, and returns the address.
func Start(tb testing.TB, handle Handler) string {
	tb.Helper()
	ln, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	Serve(tb, ln, Config(tb, handle))
	return ln.Addr().String()
}

// Config is that of a server with patience.
func Config(tb testing.TB, handle Handler) http1.Config {
	tb.Helper()
	return http1.Config{
		Open: func(net.Conn) http1.Client {
			return http1.Client{Handler: handle, SendTimeout: time.Minute, Closed: func() {}}
		},
		HeaderTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeader: 64 << 10,
		Log: slog.New(slog.DiscardHandler),
	}
}

// Serve serves on ln until the test ends. Its end waits for what is being served.
func Serve(tb testing.TB, ln net.Listener, c http1.Config) *http1.Server {
	tb.Helper()
	s := http1.New(c)
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("serve: %v", err)
		}
	})
	return s
}
