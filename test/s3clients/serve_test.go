package s3clients_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy"
)

// serve is a proxy in front of the server of a world, by the world's link, and
// returns its address.
func serve(t *testing.T, s *testenv.S3Server, w *world) string {
	t.Helper()
	proxy, err := s3proxy.New(s3proxy.Config{
		Upstream: s3proxy.Upstream{Endpoint: "http://" + w.link.Endpoint(), Region: region, AccessKey: s.AccessKey, SecretKey: s.SecretKey},
		Clients:  []s3proxy.Client{{AccessKey: w.access, SecretKey: w.secret, Buckets: []string{"*"}}},
		Domains:  []string{"s3.test"},
		Logger:   slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(ctx, ln) }()
	t.Cleanup(sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}))
	return ln.Addr().String()
}
