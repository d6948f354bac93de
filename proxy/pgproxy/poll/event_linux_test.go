package poll

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

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
		l.conns[int32(c.fd)] = c
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
	<-time.After(watched)
	if used := used() - before; used > watched/2 {
		t.Errorf("%v of processor time in %v", used, watched)
	}
}
