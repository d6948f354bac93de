package wire

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"testing"
	"time"
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
