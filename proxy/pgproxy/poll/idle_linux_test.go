package poll

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
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

// all takes what comes, and returns with what the stream ends.
func (r *taker) all() error {
	for {
		if err := r.Idle(r.step); err != nil {
			return err
		}
		var b [8]byte
		n, err := r.Read(b[:])
		if r.got = append(r.got, b[:n]...); err != nil {
			return err
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
	c.wantsIdle(t)
	write(t, peer, "2")
	await(t, "the loop begins a step", in)
	return sync.OnceFunc(func() {
		close(out)
		waits.Wait()
	})
}

// wantsIdle waits until the owner waits in Idle.
func (c *Conn) wantsIdle(t *testing.T) {
	t.Helper()
	eventually(t, "the owner idles", func() bool {
		c.in.mu.Lock()
		defer c.in.mu.Unlock()
		return c.in.mode == idle
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
					c.wantsIdle(t)
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
	c.wantsIdle(t)
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
