package wire

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1/http1test"
)

// A body of which a byte comes now and then, each in time, ends all the same.
func TestIntakeTrickles(t *testing.T) {
	t.Parallel()
	const limit = 100 * time.Millisecond
	ended := make(chan error, 1)
	conn, err := net.Dial("tcp", http1test.Start(t, func(w *http1.Response, r *http.Request) {
		b := NewIntake(w, r, limit, counter())
		_, err := io.ReadAll(b)
		if b.Failed() == nil {
			t.Errorf("it is not late: %v", err)
		}
		ended <- err
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for tick := time.NewTicker(limit / 5); ; {
		select {
		case err := <-ended:
			tick.Stop()
			if err == nil {
				t.Error("it is whole")
			}
			return
		case <-tick.C:
			_, _ = conn.Write([]byte("x")) // until it is cut off
		case <-ctx.Done():
			t.Fatal("it goes on")
		}
	}
}
