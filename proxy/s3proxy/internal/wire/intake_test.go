package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1/http1test"
)

func counter() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "bytes_total", Help: "for tests"})
}

// serve has handle serve one request, whose head says that its body has so many
// bytes; the client sends text of it, and closes nothing.
func serve(t *testing.T, size int, text string, limit time.Duration, handle func(ctx context.Context, b *Intake)) {
	t.Helper()
	done := make(chan struct{})
	conn, err := net.Dial("tcp", http1test.Start(t, func(w *http1.Response, r *http.Request) {
		defer close(done)
		handle(r.Context(), NewIntake(w, r, limit, counter()))
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size, text); err != nil {
		t.Fatal(err)
	}
	<-done
}

func TestIntakeWhole(t *testing.T) {
	t.Parallel()
	serve(t, 3, "abc", time.Minute, func(ctx context.Context, b *Intake) {
		if data, err := io.ReadAll(b); err != nil || string(data) != "abc" || !b.Whole() {
			t.Errorf("%q, %v, %v", data, err, b.Whole())
		}
		if b.Stop() || b.Failed() != nil || ctx.Err() != nil {
			t.Error("it is not as if nothing had happened")
		}
	})
}

// A body that does not come is late, and the client has not gone.
func TestIntakeLate(t *testing.T) {
	t.Parallel()
	serve(t, 3, "a", 50*time.Millisecond, func(ctx context.Context, b *Intake) {
		data, err := io.ReadAll(b)
		if string(data) != "a" || err == nil || b.Whole() {
			t.Errorf("%q, %v, %v", data, err, b.Whole())
		}
		if b.Failed() == nil || ctx.Err() != nil {
			t.Errorf("failed: %v, gone: %v", b.Failed(), ctx.Err())
		}
	})
}

// Stop cuts off whoever reads, and it is not the client's fault.
func TestIntakeStop(t *testing.T) {
	t.Parallel()
	serve(t, 3, "a", time.Minute, func(ctx context.Context, b *Intake) {
		first, failed := make(chan struct{}), make(chan error)
		go func() {
			p := make([]byte, 3)
			_, _ = b.Read(p)
			close(first)
			_, err := b.Read(p)
			failed <- err
		}()
		<-first
		for !b.Stop() { // until the second read has begun
			b.stopped.Store(false)
		}
		if err := <-failed; err == nil {
			t.Error("the reader goes on")
		}
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, errStopped) {
			t.Errorf("another read: %v", err)
		}
		if b.Failed() != nil || ctx.Err() != nil || b.Whole() {
			t.Errorf("failed: %v, gone: %v, whole: %v", b.Failed(), ctx.Err(), b.Whole())
		}
	})
}

// A client that sends no more may listen yet, one that has reset the connection does
// not; to the request both have gone.
func TestIntakeGone(t *testing.T) {
	t.Parallel()
	for how, row := range map[string]struct {
		leave  func(c *net.TCPConn)
		failed bool
	}{
		"half":  {func(c *net.TCPConn) { _ = c.CloseWrite() }, true},
		"close": {func(c *net.TCPConn) { c.Close() }, true},
		"reset": {func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() }, false},
	} {
		for framing, text := range map[string]string{"length": "Content-Length: 3\r\n\r\na", "chunks": "Transfer-Encoding: chunked\r\n\r\n3\r\na"} {
			done, read := make(chan struct{}), make(chan struct{})
			conn, err := net.Dial("tcp", http1test.Start(t, func(w *http1.Response, r *http.Request) {
				defer close(done)
				b := NewIntake(w, r, time.Minute, counter())
				_, _ = io.ReadFull(b, make([]byte, 1))
				close(read)
				if _, err := io.ReadAll(b); err == nil {
					t.Errorf("%s, %s: the body is whole", how, framing)
				}
				if r.Context().Err() == nil || (b.Failed() != nil) != row.failed {
					t.Errorf("%s, %s: gone: %v, failed: %v", how, framing, r.Context().Err(), b.Failed())
				}
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: x\r\n"+text); err != nil {
				t.Fatal(err)
			}
			<-read
			row.leave(conn.(*net.TCPConn))
			<-done
		}
	}
}
