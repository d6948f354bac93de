package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// hold lets workers and nemesis loose for d.
func (b *siege) hold(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	for range writers {
		all.Go(func() { b.work(ctx) })
	}
	for ctx.Err() == nil {
		pause(ctx, 20*time.Millisecond+rand.N(100*time.Millisecond))
		b.harms++
		b.harm(ctx, t)
	}
	all.Wait()
}

// harm does one of the things that may happen to networks, proxies and servers.
// It runs in the test's goroutine and leaves all in order.
func (b *siege) harm(ctx context.Context, t *testing.T) {
	t.Helper()
	g := b.gates[rand.IntN(len(b.gates))]
	link := []*testenv.Link{g.inner, g.outer}[rand.IntN(2)]
	switch b.harms % 30 {
	case 20:
		b.count("server killed")
		b.server.Kill(t)
		pause(ctx, rand.N(100*time.Millisecond))
		b.server.Restart(t)
		return
	case 10:
		b.count("proxy stopped")
		g.close(t, 0)
		pause(ctx, rand.N(100*time.Millisecond))
		g.open(t)
		return
	case 0:
		b.count("proxy drained")
		g.close(t, 200*time.Millisecond)
		g.open(t)
		return
	}
	switch rand.IntN(5) {
	case 0:
		b.count("link cut")
		link.Cut()
	case 1:
		b.count("reply lost")
		g.outer.DropReply(1 + rand.IntN(20))
	case 2:
		b.count("link frozen")
		link.Freeze()
		pause(ctx, rand.N(3*shift))
		link.Thaw()
	case 3:
		b.count("link slow")
		link.Delay(rand.N(30 * time.Millisecond))
		pause(ctx, rand.N(3*shift))
		link.Delay(0)
	case 4:
		b.count("link gone")
		link.Refuse(true)
		pause(ctx, rand.N(2*shift))
		link.Refuse(false)
	}
}

// enough reports whether so much has happened that it tells something.
func (b *siege) enough() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for outcome, least := range map[string]int{
		"acknowledged": 50, "claimed": 20, "write: TK001": 5, "not applied": 20, "unknown": 1, "write: connection lost": 5,
		"server killed": 1, "proxy stopped": 1, "torn": 5, "cancel sent": 5,
	} {
		if b.outcomes[outcome] < least {
			return false
		}
	}
	return true
}

// wantNothingLeft wants all sessions to be over, at the proxies and at the server.
func (b *siege) wantNothingLeft(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; pause(t.Context(), 20*time.Millisecond) {
		served := 0.
		for _, g := range b.gates {
			served += g.sessions(t)
		}
		backends := b.query(t, fmt.Sprintf("select count(*) from pg_stat_activity where usename = '%s'", b.role))
		if served == 0 && backends == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v sessions and %d backends are left when all clients are gone", served, backends)
		}
	}
}

// held is what is in use when nothing goes on: goroutines and heap.
func held() (goroutines int, heap int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), int64(m.HeapAlloc)
}

// Two proxies side by side in front of one server, 8 workers whose turns are
// superseded ten times a second and who go on when they are over, in every way to write
// that a client has; links that are cut, frozen, slow, gone and lose replies, on
// both sides of the proxies; cancels, clients that die in the middle of a
// message, proxies stopped and drained, servers killed. I1, I2 and I3 hold, and
// nothing is left when all is over. Not parallel: it looks at what is in use.
func TestProxyStress(t *testing.T) {
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		b := newSiege(t, s.Major(), true)
		b.hold(t, time.Second/2) // so that all is there that stays
		b.wantNothingLeft(t)
		goroutines, heap := held()
		b.hold(t, durationOr(t, 4*time.Second))
		for deadline := time.Now().Add(2 * time.Minute); !b.enough() && time.Now().Before(deadline); {
			b.hold(t, 2*time.Second)
		}
		b.wantNothingLeft(t)
		stale, rows := b.judge(t)
		t.Logf("%d rows; %s", rows, b.summary())
		if stale != 0 {
			t.Errorf("%d rows were written under a stale token (I1)", stale)
		}
		for _, wrong := range b.wrong {
			t.Error(wrong)
		}
		if !b.enough() {
			t.Error("too little happened to tell anything")
		}
		b.claims, b.fates, b.outcomes = nil, nil, nil
		awaitHeld(t, goroutines, heap)
		for _, g := range b.gates {
			g.close(t, time.Second)
		}
	})
}

// awaitHeld wants what is in use to come back to what it was, but for what pools
// keep.
func awaitHeld(t *testing.T, goroutines int, heap int64) {
	t.Helper()
	const slack = 8 << 20
	for deadline := time.Now().Add(time.Minute); ; pause(t.Context(), 50*time.Millisecond) {
		nowGoroutines, nowHeap := held()
		if nowGoroutines <= goroutines && nowHeap <= heap+slack {
			t.Logf("%d goroutines before and %d after, heap %d KiB and %d KiB", goroutines, nowGoroutines, heap>>10, nowHeap>>10)
			return
		}
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before and %d after, heap %d KiB and %d KiB\n%s", goroutines, nowGoroutines, heap>>10, nowHeap>>10, buf[:runtime.Stack(buf, true)])
		}
	}
}

// The same without tokens, which Allow lets write: it must show stale rows, or
// else the test above could not have seen any.
func TestProxyStressCanFail(t *testing.T) {
	t.Parallel()
	b := newSiege(t, 0, false)
	for deadline := time.Now().Add(time.Minute); ; {
		b.hold(t, time.Second)
		if stale, rows := b.judge(t); stale > 0 {
			t.Logf("%d of %d rows are stale without the fence; %s", stale, rows, b.summary())
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no stale row within a minute, though nothing was fenced; %s", b.summary())
		}
	}
	for _, g := range b.gates {
		g.close(t, 0)
	}
}
