package pgproxy

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// Ready is asked once a second: it must tell a server that answers from a mere
// port, and must not fill the server's log.
func TestReady(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Upstream: Upstream{Address: testenv.Postgres(t).Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("Postgres is there: %v", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(t.Context()); !errors.Is(err, errDraining) {
		t.Errorf("a proxy that has shut down: %v", err)
	}
}

func TestReadySilent(t *testing.T) {
	t.Parallel()
	silent := filepath.Join(t.TempDir(), "a.sock")
	for _, where := range []struct{ network, address string }{{"tcp", "127.0.0.1:0"}, {"unix", silent}} {
		ln, err := net.Listen(where.network, where.address) // whoever connects waits in its queue
		if err != nil {
			t.Fatal(err)
		}
		address := ln.Addr().String()
		s, err := New(Config{Upstream: Upstream{Address: address}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := s.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), address) {
			t.Errorf("a server at %s that does not answer: %v", address, err)
		}
		ln.Close()
		if err := s.Ready(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("no server at %s: %v", address, err)
		}
	}
}
