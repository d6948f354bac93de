package serve

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		live uint64
		want int
	}{{0, 1600}, {1 * mib, 1600}, {4 * mib, 1500}, {16 * mib, 300}, {32 * mib, 100}, {40 * mib, 100}, {1000 * mib, 100}} {
		if got := percentFor(c.live, 64*mib); got != c.want {
			t.Errorf("%d MiB: %d, want %d", c.live/mib, got, c.want)
		}
	}
}

// The percentage follows the heap: down when it has grown, and up again.
func TestKeepHeap(t *testing.T) { //nolint:paralleltest // the heap is the process's
	t.Setenv("GOGC", "")
	was := percent()
	stop := keepHeap(256 << 20)
	defer stop()
	ballast := make([]byte, 200<<20)
	settles(t, func(percent int) bool { return percent <= 200 })
	runtime.KeepAlive(ballast) // and no longer
	settles(t, func(percent int) bool { return percent > 200 })
	stop()
	if got := percent(); got != was {
		t.Errorf("after stop: %d", got)
	}

	t.Setenv("GOGC", "70")
	defer keepHeap(256 << 20)()
	if got := percent(); got != was { // what the runtime read when it began stays
		t.Errorf("with GOGC set: %d", got)
	}
}

func settles(t *testing.T, good func(percent int) bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !good(percent()); {
		if time.Now().After(end) {
			t.Fatalf("the percentage stays %d", percent())
		}
		runtime.GC()
		runtime.Gosched()
	}
}

func percent() int {
	p := debug.SetGCPercent(100)
	debug.SetGCPercent(p)
	return p
}
