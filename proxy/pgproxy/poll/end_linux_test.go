package poll

import (
	"errors"
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestEndBehindData: the end of a stream that comes with its last bytes, of which
// the loop hears once, is read.
func TestEndBehindData(t *testing.T) {
	for name, end := range map[string]func(peer net.Conn) error{
		"close":      net.Conn.Close,
		"half-close": func(peer net.Conn) error { return peer.(interface{ CloseWrite() error }).CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, network string) {
				var l Loop
				c, peer := adopted(t, &l, network)
				r := taker{Conn: c}
				write(t, peer, "a")
				var err error
				done := make(chan struct{})
				go func() { defer close(done); err = r.all() }()
				eventually(t, "the first byte is taken", func() bool {
					c.in.mu.Lock()
					defer c.in.mu.Unlock()
					return c.in.mode == idle && len(r.got) == 1
				})
				release := busy(t, &l)
				write(t, peer, "b")
				if err := end(peer); err != nil {
					t.Fatal(err)
				}
				release()
				await(t, "the end of the stream", done)
				if string(r.got) != "ab" || !errors.Is(err, io.EOF) {
					t.Errorf("got %q and %v", r.got, err)
				}
			})
		})
	}
}

// TestReset: who idles is woken by a reset, with data before it or without.
func TestReset(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "b"} {
		var l Loop
		c, peer := adopted(t, &l, "tcp")
		r := taker{Conn: c}
		var err error
		done := make(chan struct{})
		go func() { defer close(done); err = r.all() }()
		c.wantsIdle(t)
		release := busy(t, &l)
		write(t, peer, data)
		if err := errors.Join(peer.(*net.TCPConn).SetLinger(0), peer.Close()); err != nil {
			t.Fatal(err)
		}
		release()
		await(t, "the reset", done)
		if !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("the stream ends with %v", err)
		}
		if _, again := c.Read(make([]byte, 1)); !errors.Is(again, err) {
			t.Errorf("and then with %v", again)
		}
	}
}

// TestUrgent: reads stop at urgent data, but nobody waits for what is behind it.
func TestUrgent(t *testing.T) {
	t.Parallel()
	var l Loop
	c, peer := adopted(t, &l, "tcp")
	r := taker{Conn: c}
	done := make(chan struct{})
	go func() { defer close(done); _ = r.all() }()
	c.wantsIdle(t)
	release := busy(t, &l)
	raw, err := peer.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	controlErr := raw.Control(func(fd uintptr) { err = unix.Sendto(int(fd), []byte("ab"), unix.MSG_OOB, nil) })
	if err := errors.Join(controlErr, err); err != nil {
		t.Fatal(err)
	}
	write(t, peer, "c")
	release()
	eventually(t, "what is behind the urgent byte is read", func() bool {
		c.in.mu.Lock()
		defer c.in.mu.Unlock()
		return c.in.mode == idle && string(r.got) == "ac"
	})
	peer.Close()
	await(t, "the end of the stream", done)
	if string(r.got) != "ac" {
		t.Errorf("got %q", r.got)
	}
}
