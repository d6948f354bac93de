package poll

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fill writes a pattern from an offset on until no more can be written at once,
// and returns how much.
func fill(t *testing.T, c *Conn, from int) (n int) {
	t.Helper()
	for {
		b := pattern(from+n, 32<<10)
		k, err := c.TryWrite(b)
		if err != nil {
			t.Fatal(err)
		}
		if n += k; k < len(b) {
			return n
		}
	}
}

// pattern is n bytes of a stream that does not repeat soon, from an offset on.
func pattern(from, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		x := uint32(from+i) * 2654435761
		b[i] = byte(x >> 24)
	}
	return b
}

// blockedSize is more than the buffers of a connection hold.
const blockedSize = 8 << 20

// blocked is a write that waits for the other end.
func blocked(t *testing.T, c *Conn, from int) (returned chan error, n *int) {
	t.Helper()
	returned, n = make(chan error, 1), new(int)
	go func() {
		k, err := c.Write(pattern(from, blockedSize))
		*n = k
		returned <- err
	}()
	eventually(t, "the write waits", func() bool {
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		return c.out.mode == waiting
	})
	return returned, n
}

// TestBlockedWrite goes on as the other end reads, byte by byte the same, while
// steps are done for the same connection; and so does the next.
func TestBlockedWrite(t *testing.T) {
	onBoth(t, func(t *testing.T, network string) {
		var l Loop
		c, peer := adopted(t, &l, network)
		r := taker{Conn: c}
		read := make(chan struct{})
		go func() { defer close(read); _ = r.all() }()
		for from, said := 0, ""; from < 3*blockedSize; {
			filled := fill(t, c, from)
			returned, n := blocked(t, c, from+filled)
			c.wantsIdle(t)
			write(t, peer, "meanwhile")
			said += "meanwhile"
			eventually(t, "steps are done", func() bool {
				c.in.mu.Lock()
				defer c.in.mu.Unlock()
				return c.in.mode == idle && string(r.got) == said
			})
			got := make([]byte, filled+blockedSize)
			within(t, "what was written", func() {
				if _, err := io.ReadFull(peer, got); err != nil {
					t.Error(err)
				}
			})
			if err := await(t, "the write", returned); err != nil || *n != blockedSize {
				t.Fatalf("wrote %d: %v", *n, err)
			}
			if !bytes.Equal(got, pattern(from, len(got))) {
				t.Fatal("other bytes come than were written")
			}
			from += len(got)
		}
		peer.Close()
		await(t, "the end of the stream", read)
	})
}

// TestBlockedWriteEnds with the connection, and with its deadline, and says how
// much it wrote.
func TestBlockedWriteEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(c *Conn, peer net.Conn) error
		want []error
	}{
		"close":           {func(c *Conn, _ net.Conn) error { return c.Close() }, []error{net.ErrClosed}},
		"past deadline":   {func(c *Conn, _ net.Conn) error { return c.SetWriteDeadline(time.Unix(1, 0)) }, []error{os.ErrDeadlineExceeded}},
		"future deadline": {func(c *Conn, _ net.Conn) error { return c.SetDeadline(time.Now().Add(10 * time.Millisecond)) }, []error{os.ErrDeadlineExceeded}},
		"hung up":         {func(_ *Conn, peer net.Conn) error { return peer.Close() }, []error{unix.EPIPE, unix.ECONNRESET}},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, network string) {
				var l Loop
				c, peer := adopted(t, &l, network)
				sent := fill(t, c, 0)
				returned, n := blocked(t, c, sent)
				if err := tc.do(c, peer); err != nil {
					t.Fatal(err)
				}
				err := await(t, "the write", returned)
				if !errors.Is(err, tc.want[0]) && !errors.Is(err, tc.want[len(tc.want)-1]) {
					t.Errorf("the write ends with %v, want %v", err, tc.want)
				}
				if name == "hung up" {
					return
				}
				c.Close()
				var got []byte
				within(t, "what was written", func() { got, _ = io.ReadAll(peer) })
				if want := pattern(0, sent+*n); !bytes.Equal(got, want) {
					t.Errorf("%d bytes come of %d that were written", len(got), len(want))
				}
			})
		})
	}
}

// TestClosed: whoever uses a connection that was closed is told so, and by all its
// methods.
func TestClosed(t *testing.T) {
	onBoth(t, func(t *testing.T, network string) {
		var l Loop
		c, peer := adopted(t, &l, network)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1)
		for name, f := range map[string]func() error{
			"Read":             func() error { _, err := c.Read(b); return err },
			"TryRead":          func() error { _, err := c.TryRead(b); return err },
			"Write":            func() error { _, err := c.Write(b); return err },
			"TryWrite":         func() error { _, err := c.TryWrite(b); return err },
			"Idle":             func() error { return c.Idle(func() bool { t.Error("a step"); return true }) },
			"Close":            c.Close,
			"CloseWrite":       c.CloseWrite,
			"SetDeadline":      func() error { return c.SetDeadline(time.Now()) },
			"SetReadDeadline":  func() error { return c.SetReadDeadline(time.Time{}) },
			"SetWriteDeadline": func() error { return c.SetWriteDeadline(time.Now()) },
		} {
			if err := f(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		within(t, "the other end sees it", func() {
			if _, err := peer.Read(b); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		})
	})
}

// TestLoopComesAndGoes: the loop ends with its last connection, and begins with
// the next, also when many come and go at once; nothing is left of it.
func TestLoopComesAndGoes(t *testing.T) { // not in parallel: it counts file descriptors
	var l Loop
	before := openFiles(t) // or fewer, if something of an earlier test's still ends
	for range 20 {
		done := make(chan error, 8)
		for worker := range cap(done) {
			go func() { done <- comeAndGo(&l, networks[worker%2]) }()
		}
		for range cap(done) {
			if err := await(t, "connections come and go", done); err != nil {
				t.Fatal(err)
			}
		}
		l.wantsEnd(t)
		eventually(t, "all is closed", func() bool { return openFiles(t) <= before })
	}
}

// comeAndGo has connections that are used once.
func comeAndGo(l *Loop, network string) error {
	for range 20 {
		a, b, err := connect(network)
		if err != nil {
			return err
		}
		c, _, err := l.Adopt(a)
		if err != nil {
			return err
		}
		echoed := make(chan error, 1)
		go func() {
			var n int
			x := make([]byte, 1)
			err := c.Idle(func() bool {
				n, _ = c.TryRead(x)
				return n == 0
			})
			if err == nil {
				_, err = c.Write(x[:n])
			}
			echoed <- errors.Join(err, c.Close())
		}()
		if _, err := b.Write([]byte("x")); err != nil {
			return err
		}
		got, err := io.ReadAll(b)
		if err = errors.Join(err, <-echoed, b.Close()); err != nil {
			return err
		}
		if string(got) != "x" {
			return errors.New("got " + string(got))
		}
	}
	return nil
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
