package wire

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1/http1test"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/lane"
)

// answered is a server whose answers Move makes of those of a store.
func answered(t *testing.T, store *http.Server, plain bool) (addr string, kernel *atomic.Int64) {
	t.Helper()
	return answeredIn(t, 0, time.Minute, store, plain)
}

// answeredIn is answered, of a store that may be silent for so long, to clients that may
// make no progress for patience.
func answeredIn(t *testing.T, limit, patience time.Duration, store *http.Server, plain bool) (addr string, kernel *atomic.Int64) {
	t.Helper()
	stores, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = store.Serve(stores) }()
	t.Cleanup(func() { store.Close() })
	pool := lane.New(lane.Config{Addr: stores.Addr().String(), Dial: new(net.Dialer).DialContext, ResponseTimeout: limit, IdleTimeout: time.Minute, MaxIdle: 2})
	t.Cleanup(pool.CloseIdle)
	kernel = new(atomic.Int64)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	http1test.Serve(t, &wrapping{ln, plain, kernel}, http1test.Config(t, func(w *http1.Response, r *http.Request) {
		ask := (&http.Request{Method: http.MethodGet, Host: "store", URL: &url.URL{Path: r.URL.Path}, Header: http.Header{}}).WithContext(r.Context())
		res, err := pool.Do(ask, nil)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer res.Body.Close()
		a := NewAnswer(w, r, patience, counter(), func() {})
		a.Header().Set("Content-Type", "text/plain")
		a.Header().Set("Content-Length", strconv.FormatInt(res.ContentLength, 10))
		a.WriteHeader(http.StatusOK)
		if err := a.Move(res.Body.(*lane.Body), res.ContentLength, make([]byte, pieceSize)); err != nil {
			panic(http.ErrAbortHandler)
		}
	}))
	return ln.Addr().String(), kernel
}

// wrapping is a listener of connections to which the kernel can move bytes, or not.
type wrapping struct {
	net.Listener

	plain  bool
	kernel *atomic.Int64
}

func (l *wrapping) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || !l.plain {
		return struct{ net.Conn }{c}, err
	}
	return &counting{c.(*net.TCPConn), l.kernel}, nil
}

// counting counts what the kernel moves.
type counting struct {
	*net.TCPConn

	kernel *atomic.Int64
}

func (c *counting) ReadFrom(r io.Reader) (int64, error) {
	n, err := c.TCPConn.ReadFrom(r)
	c.kernel.Add(n)
	return n, err
}

// Bodies of all sizes arrive as they were, by the kernel or not.
func TestMove(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16)
	store := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(r.URL.Path[1:])
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(text[:size])
	})}
	for name, plain := range map[string]bool{"plain": true, "TLS": false} {
		addr, kernel := answered(t, store, plain)
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		r := bufio.NewReader(conn)
		for _, size := range []int{0, 1, 4096, fewBytes, fewBytes + 1, 2 * fewBytes, pieceSize, pieceSize + 1, longPiece + pieceSize, len(text)} {
			_, _ = io.WriteString(conn, "GET /"+strconv.Itoa(size)+" HTTP/1.1\r\nHost: x\r\n\r\n")
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("%s, %d bytes: %v", name, size, err)
			}
			got, err := io.ReadAll(res.Body)
			if err != nil || !bytes.Equal(got, text[:size]) {
				t.Fatalf("%s: %d bytes of %d, %v", name, len(got), size, err)
			}
		}
		if moved := kernel.Load(); plain != (moved > int64(len(text))/2) {
			t.Errorf("%s: the kernel moved %d bytes", name, moved)
		}
	}
}

// What a client takes its time for is not the store's.
func TestMoveToSlowClient(t *testing.T) {
	t.Parallel()
	const size, limit = 32 << 20, time.Second
	body := make([]byte, size) // which takes its time, too
	store := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(body)
	})}
	for name, plain := range map[string]bool{"plain": true, "TLS": false} {
		addr, _ := answeredIn(t, limit, time.Minute, store, plain)
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(3 * limit) // the body is on its way, and stuck
		if n, err := io.Copy(io.Discard, res.Body); n != size || err != nil {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}

// Nor is what the store takes its time for the client's.
func TestMoveFromSlowStore(t *testing.T) {
	t.Parallel()
	const size, limit = 3 << 20, time.Second
	store := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(make([]byte, size/2)) // to the middle of a piece
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(5 * limit / 2):
		case <-r.Context().Done():
		}
		_, _ = w.Write(make([]byte, size/2))
	})}
	for name, plain := range map[string]bool{"plain": true, "TLS": false} {
		addr, _ := answeredIn(t, time.Minute, limit, store, plain)
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, res.Body); n != size || err != nil {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}

// A client that takes nothing is not waited for longer than it may take.
func TestMoveToStuckClient(t *testing.T) {
	t.Parallel()
	const size, limit = 32 << 20, 200 * time.Millisecond
	body := make([]byte, size)
	over := make(chan struct{}, 2)
	store := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(body)
		over <- struct{}{}
	})}
	for name, plain := range map[string]bool{"plain": true, "TLS": false} {
		addr, _ := answeredIn(t, time.Minute, limit, store, plain)
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		select {
		case <-over:
		case <-time.After(20 * time.Second):
			t.Errorf("%s: still waited for", name)
		}
	}
}

// A body that breaks off at the store breaks off at the client's.
func TestMoveBreaksOff(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, pieceSize * 3} {
		store := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(size))
			_, _ = w.Write(make([]byte, size-1))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})}
		addr, _ := answered(t, store, true)
		res, err := http.Get("http://" + addr + "/")
		if err == nil {
			var n int64
			n, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if n >= int64(size) {
				t.Errorf("%d bytes of %d", n, size)
			}
		}
		if err == nil {
			t.Errorf("%d bytes: no error", size)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
