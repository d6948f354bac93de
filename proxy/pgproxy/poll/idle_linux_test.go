package poll

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// onBoth runs a test with TCP connections and with unix sockets.
func onBoth(t *testing.T, f func(t *testing.T, network string)) {
	t.Helper()
	t.Parallel()
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			f(t, network)
		})
	}
}

// taker reads all that comes by steps, up to the end of the stream.
type taker struct {
	*Conn

	got []byte
}

func (r *taker) step() bool {
	var b [8]byte
	n, err := r.TryRead(b[:])
	r.got = append(r.got, b[:n]...)
	return err == nil && r.Drained()
}

// all is what has come when the stream has ended, and with what.
func (r *taker) all() ([]byte, error) {
	for {
		if err := r.Idle(r.step); err != nil {
			return r.got, err
		}
		var b [8]byte
		n, err := r.Read(b[:])
		if r.got = append(r.got, b[:n]...); err != nil {
			return r.got, err
		}
	}
}

// busy keeps a loop in a step, and what happens meanwhile in store for it, until
// it is released.
func busy(t *testing.T, l *Loop) (release func()) {
	t.Helper()
	c, peer := adopted(t, l, "unix")
	in, out := make(chan struct{}), make(chan struct{})
	var waits sync.WaitGroup
	waits.Go(func() {
		idles := func() bool {
			b := make([]byte, 1)
			if n, err := c.TryRead(b); n == 0 {
				return err == nil
			}
			close(in)
			<-out
			return false
		}
		_, _ = c.Read(make([]byte, 1))
		_ = c.Idle(idles)
	})
	write(t, peer, "1")
	c.wantsMode(t, idle)
	write(t, peer, "2")
	await(t, "the loop begins a step", in)
	return sync.OnceFunc(func() {
		close(out)
		waits.Wait()
	})
}

// wantsMode waits until the reading side is in that mode.
func (c *Conn) wantsMode(t *testing.T, m mode) {
	t.Helper()
	eventually(t, "the mode of a side", func() bool {
		c.in.mu.Lock()
		defer c.in.mu.Unlock()
		return c.in.mode == m
	})
}

// TestIdleSteps: while its owner waits, a step takes what comes, and the owner is
// woken when the step says so, with all that it did to be seen.
func TestIdleSteps(t *testing.T) {
	onBoth(t, func(t *testing.T, network string) {
		var l Loop
		c, peer := adopted(t, &l, network)
		b := make([]byte, 8)
		stepped := "" // not guarded: what a step does happens before Idle returns
		step := func() bool {
			n, err := c.TryRead(b)
			if n == 0 {
				return err == nil
			}
			if stepped += string(b[:n]); string(b[:n]) == "!" {
				return false
			}
			_, err = c.TryWrite(b[:n])
			return err == nil && c.Drained()
		}
		returned := make(chan error, 1)
		for range 3 {
			go func() { returned <- c.Idle(step) }()
			got := make([]byte, 1)
			for _, s := range "abcdefghij" {
				write(t, peer, string(s))
				within(t, "the answer of a step", func() { _, _ = io.ReadFull(peer, got) })
				if got[0] != byte(s) {
					t.Fatalf("got %q, want %q", got[0], s)
				}
			}
			select {
			case err := <-returned:
				t.Fatalf("Idle returns %v although its step takes everything", err)
			default:
			}
			write(t, peer, "!")
			if err := await(t, "Idle", returned); err != nil {
				t.Fatal(err)
			}
			if stepped != "abcdefghij!" {
				t.Fatalf("the steps took %q", stepped)
			}
			stepped = ""
		}
	})
}

// TestIdleBefore: what came before Idle, known to the loop or not, is not missed.
func TestIdleBefore(t *testing.T) {
	onBoth(t, func(t *testing.T, network string) {
		var l Loop
		c, peer := adopted(t, &l, network)
		takes := func() bool {
			n, err := c.TryRead(make([]byte, 8))
			return n == 0 && err == nil
		}
		for i := range 200 {
			write(t, peer, "x")
			if i%2 == 0 {
				eventually(t, "the loop has heard of it", c.in.ready.Load)
			}
			within(t, "Idle behind what came", func() {
				if err := c.Idle(takes); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// TestIdleEnds: Close and deadlines end Idle, also while a step runs, and what the
// step says then is of no matter.
func TestIdleEnds(t *testing.T) {
	past := func(c *Conn) error { return c.SetReadDeadline(time.Unix(1, 0)) }
	for name, tc := range map[string]struct {
		do   func(c *Conn) error
		want error
	}{
		"close":           {(*Conn).Close, net.ErrClosed},
		"past deadline":   {past, os.ErrDeadlineExceeded},
		"future deadline": {func(c *Conn) error { return c.SetDeadline(time.Now().Add(10 * time.Millisecond)) }, os.ErrDeadlineExceeded},
		"closed later": {func(c *Conn) error {
			time.AfterFunc(time.Millisecond, func() { _ = c.Close() })
			return nil
		}, net.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, network string) {
				for _, stays := range []bool{true, false} {
					var l Loop
					c, peer := adopted(t, &l, network)
					returned := make(chan error, 1)
					go func() {
						returned <- c.Idle(func() bool { n, err := c.TryRead(make([]byte, 1)); return n == 0 && err == nil })
					}()
					c.wantsMode(t, idle)
					if err := tc.do(c); err != nil {
						t.Fatal(err)
					}
					if err := await(t, "Idle", returned); !errors.Is(err, tc.want) {
						t.Errorf("Idle: %v, want %v", err, tc.want)
					}
					if err := c.Idle(func() bool { return false }); !errors.Is(err, tc.want) {
						t.Errorf("Idle, once more: %v, want %v", err, tc.want)
					}
					_ = c.SetReadDeadline(time.Time{})
					if tc.want == net.ErrClosed { //nolint:errorlint // of the table
						continue
					}
					endsInStep(t, c, peer, stays, tc.do, tc.want)
				}
			})
		})
	}
}

// endsInStep has a step during which the side ends.
func endsInStep(t *testing.T, c *Conn, peer net.Conn, stays bool, do func(c *Conn) error, want error) {
	t.Helper()
	in, out, returned := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	step := func() bool {
		if n, err := c.TryRead(make([]byte, 8)); n == 0 {
			return err == nil
		}
		close(in)
		<-out
		return stays
	}
	go func() { returned <- c.Idle(step) }()
	c.wantsMode(t, idle)
	write(t, peer, "x")
	await(t, "the step", in)
	if err := do(c); err != nil {
		t.Fatal(err)
	}
	if want != nil && !errors.Is(want, net.ErrClosed) {
		eventually(t, "the deadline has passed", func() bool { return c.in.ended() != nil })
	}
	select {
	case err := <-returned:
		t.Errorf("Idle returns %v before its step does", err)
	default:
	}
	close(out)
	if err := await(t, "Idle", returned); !errors.Is(err, want) {
		t.Errorf("Idle behind a step that says %v: %v, want %v", stays, err, want)
	}
}

// TestCloseInStep: a connection that is closed while a step runs.
func TestCloseInStep(t *testing.T) {
	onBoth(t, func(t *testing.T, network string) {
		for _, stays := range []bool{true, false} {
			var l Loop
			c, peer := adopted(t, &l, network)
			endsInStep(t, c, peer, stays, (*Conn).Close, net.ErrClosed)
		}
	})
}

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
				go func() { defer close(done); _, err = r.all() }()
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
		go func() { defer close(done); _, err = r.all() }()
		c.wantsMode(t, idle)
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
	go func() { defer close(done); _, _ = r.all() }()
	c.wantsMode(t, idle)
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

// TestWaitBehindEvent: what the loop has heard of between a read that found
// nothing and the wait for more is not missed.
func TestWaitBehindEvent(t *testing.T) {
	onBoth(t, func(t *testing.T, network string) {
		var l Loop
		c, peer := adopted(t, &l, network)
		if n, err := c.TryRead(make([]byte, 1)); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		write(t, peer, "x")
		eventually(t, "the loop has heard of it", c.in.ready.Load)
		within(t, "the wait", func() {
			if err := c.in.wait(); err != nil {
				t.Error(err)
			}
		})
	})
}

// TestLateTimer: a deadline that was taken back does not count, even if its time
// comes at that moment.
func TestLateTimer(t *testing.T) {
	t.Parallel()
	var l Loop
	c, _ := adopted(t, &l, "unix")
	for i := range 20_000 {
		_ = c.SetReadDeadline(time.Now().Add(time.Duration(i%20) * time.Microsecond))
		for range i % 7 {
			runtime.Gosched()
		}
		_ = c.SetReadDeadline(time.Time{})
		for range 3 {
			runtime.Gosched()
		}
		if err := c.in.ended(); err != nil {
			t.Fatalf("after it was taken back: %v", err)
		}
	}
}

// TestStaleEvent: what the loop hears of a connection that was closed means
// nothing for the next one with its file descriptor.
func TestStaleEvent(t *testing.T) {
	t.Parallel()
	var l Loop
	old, peer := adopted(t, &l, "unix")
	other, otherPeer := adopted(t, &l, "unix")
	next := newConn(&l, old.fd, nil, nil)
	next.number = old.number + 9
	put := func(c *Conn) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns[int32(c.fd)] = c //nolint:gosec // a file descriptor
	}
	put(next)
	defer put(old)
	peer.Close()
	write(t, otherPeer, "x") // of this the loop hears later
	eventually(t, "the loop has heard of all", other.in.ready.Load)
	if next.in.ready.Load() || next.jagged.Load() {
		t.Error("the next connection is told of the end of the one before")
	}
}

// TestUnreadCostsNothing: a loop does not turn for what nobody wants to read yet.
func TestUnreadCostsNothing(t *testing.T) { // not in parallel: it looks at the time of the whole process
	var l Loop
	c, peer := adopted(t, &l, "unix")
	write(t, peer, "x")
	eventually(t, "the loop has heard of it", c.in.ready.Load)
	used := func() time.Duration {
		var r unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
			t.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	const watched = 200 * time.Millisecond
	before := used()
	time.Sleep(watched)
	if used := used() - before; used > watched/2 {
		t.Errorf("%v of processor time in %v", used, watched)
	}
}
