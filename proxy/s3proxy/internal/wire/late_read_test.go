package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1/http1test"
)

// The transport may read a body on when its request has ended: that takes nothing of
// the time that the connection has for the next one.
func TestIntakeReadAfterEnd(t *testing.T) {
	t.Parallel()
	intakes := make(chan *Intake, 1)
	conn, err := net.Dial("tcp", http1test.Start(t, func(w *http1.Response, r *http.Request) {
		b := NewIntake(w, r, time.Millisecond, counter())
		if b.Stop() {
			t.Error("somebody read")
		}
		w.WriteHeader(http.StatusForbidden)
		intakes <- b
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAtLeast(conn, make([]byte, 4096), 16); err != nil {
		t.Fatal(err)
	}
	if _, err := (<-intakes).Read(make([]byte, 1)); !errors.Is(err, errStopped) {
		t.Errorf("read: %v", err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond)) // in which the server would have closed it
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v: the connection has ended", n, err)
	}
}
