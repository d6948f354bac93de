package wire

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/lane"
)

// pair returns two ends of a TCP connection.
func pair(t *testing.T) (ours, client *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dialed, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close(); accepted.Close() })
	return accepted.(*net.TCPConn), dialed.(*net.TCPConn)
}

// silent reports whether nothing has come.
func silent(t *testing.T, c net.Conn) bool {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	n, err := c.Read(make([]byte, 1))
	return n == 0 && err != nil
}

// What is held goes out with what ends it, in order and whole.
func TestHold(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("x"), heldSize)
	for name, end := range map[string]struct {
		act  func(c *Conn)
		more []byte // that it sends
	}{
		"release":     {func(c *Conn) { c.Release() }, nil},
		"too much":    {func(c *Conn) { _, _ = c.Write(large) }, large},
		"close":       {func(c *Conn) { c.Close() }, nil},
		"close write": {func(c *Conn) { _ = c.CloseWrite() }, nil},
		"read from":   {func(c *Conn) { _, _ = c.ReadFrom(bytes.NewReader(large)) }, large},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, client := pair(t)
			c := NewConn(ours, time.Minute)
			c.Hold()
			for _, piece := range []string{"a", "b", "c"} {
				if n, err := c.Write([]byte(piece)); n != 1 || err != nil {
					t.Fatal(n, err)
				}
			}
			if !silent(t, client) {
				t.Fatal("it was not held")
			}
			end.act(c)
			want := append([]byte("abc"), end.more...)
			got := make([]byte, len(want))
			if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
			}
			if _, err := c.Write([]byte("d")); err == nil && silent(t, client) {
				t.Error("it is still held")
			}
		})
	}
}

// Whoever closes a connection does not wait for a client that takes nothing.
func TestCloseOfStuck(t *testing.T) {
	t.Parallel()
	ours, _ := pair(t)
	c := NewConn(ours, time.Hour)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, 64<<20))
		failed <- err
	}()
	for c.writing.TryLock() { // it has not begun
		c.writing.Unlock()
		runtime.Gosched()
	}
	c.Close()
	if err := <-failed; err == nil {
		t.Error("all of it was taken")
	}
}

// The deadline of one answer is not that of the next, which may come much later and
// begin with a 100 Continue of net/http's.
func TestIdleHasNoDeadline(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	ours, client := pair(t)
	c := NewConn(ours, limit)
	c.Hold()
	_, _ = c.Write([]byte("a"))
	c.Idle()
	<-time.After(limit + limit/10) // until a deadline has passed, if there is one
	if _, err := c.Write([]byte("b")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2)
	if _, err := io.ReadFull(client, got); err != nil || string(got) != "ab" {
		t.Errorf("%q, %v", got, err)
	}
}

// What was held of a client that takes nothing is given up in time.
func TestReleaseOfStuck(t *testing.T) {
	t.Parallel()
	ours, _ := pair(t)
	c := NewConn(ours, 50*time.Millisecond)
	_ = ours.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	for _, err := ours.Write(make([]byte, 1<<20)); err == nil; _, err = ours.Write(make([]byte, 1<<20)) { // until no more goes in
	}
	c.Hold()
	_, _ = c.Write([]byte("x"))
	c.Release() // returns
}

// answered is a server whose answers Move makes of those of a store.
func answered(t *testing.T, store *http.Server, plain bool) (addr string, kernel *atomic.Int64) {
	t.Helper()
	stores, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = store.Serve(stores) }()
	t.Cleanup(func() { store.Close() })
	pool := lane.New(lane.Config{Addr: stores.Addr().String(), Dial: new(net.Dialer).DialContext, IdleTimeout: time.Minute, MaxIdle: 2})
	t.Cleanup(pool.CloseIdle)
	kernel = new(atomic.Int64)
	type key struct{}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := &http.Server{
		ReadHeaderTimeout: time.Minute,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, key{}, c) }, //nolint:forbidigo // as the server does
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateIdle {
				c.(*counting).Idle()
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ask := (&http.Request{Method: http.MethodGet, Host: "store", URL: &url.URL{Path: r.URL.Path}, Header: http.Header{}}).WithContext(r.Context())
			res, err := pool.Do(ask, nil)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			defer res.Body.Close()
			conn := r.Context().Value(key{}).(*counting)
			var own *Conn
			if plain {
				own = conn.Conn
			}
			a := NewAnswer(w, r, http.NewResponseController(w), own, time.Minute, counter(), func() {})
			a.Header().Set("Content-Type", "text/plain")
			a.Header().Set("Content-Length", strconv.FormatInt(res.ContentLength, 10))
			a.Short(res.ContentLength)
			a.WriteHeader(http.StatusOK)
			if err := a.Move(res.Body.(*lane.Body), res.ContentLength, make([]byte, pieceSize)); err != nil {
				panic(http.ErrAbortHandler)
			}
		}),
	}
	go func() { _ = proxy.Serve(&wrapping{ln, kernel}) }()
	t.Cleanup(func() { proxy.Close() })
	return ln.Addr().String(), kernel
}

// wrapping is a listener as the server has it, and counts.
type wrapping struct {
	net.Listener

	kernel *atomic.Int64
}

func (l *wrapping) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &counting{NewConn(c.(*net.TCPConn), time.Minute), l.kernel}, nil
}

// counting counts what the kernel moves, and the writes.
type counting struct {
	*Conn

	kernel *atomic.Int64
}

func (c *counting) ReadFrom(r io.Reader) (int64, error) {
	n, err := c.Conn.ReadFrom(r)
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
		for _, size := range []int{0, 1, 4096, fewBytes, fewBytes + 1, heldSize, pieceSize, pieceSize + 1, longPiece + pieceSize, len(text)} {
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
