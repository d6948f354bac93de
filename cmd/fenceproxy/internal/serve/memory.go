package serve

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// heapFloor is the size in bytes up to which the heap of serve may grow before what
// is not used of it is collected. A proxy keeps little, so that Go would collect
// many times a second, which takes a tenth of its time and more.
const heapFloor = 64 << 20

// keepHeap sees to that until stop is called, unless the operator has set GOGC. A
// heap that is larger is collected when it has doubled, as ever.
func keepHeap(floor uint64) (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	was := debug.SetGCPercent(percentFor(0, floor))
	var mu sync.Mutex
	var stopped bool
	var watch func()
	watch = func() { // runs after each collection
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(percentFor(live[0].Value.Uint64(), floor))
		onCollection(watch)
	}
	onCollection(watch)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		debug.SetGCPercent(was)
	}
}

// onCollection calls f when the next collection has ended.
func onCollection(f func()) {
	sentinel := new([64]byte) // too large to share its memory with others that live on
	runtime.AddCleanup(sentinel, func(f func()) { f() }, f)
}

// percentFor is by how much of itself a heap may grow of which so many bytes are
// live.
func percentFor(live, floor uint64) int {
	const least, most = 100, 1600
	if live == 0 {
		return most
	}
	if live >= floor {
		return least
	}
	return int(min(max((floor-live)*100/live, least), most)) //nolint:gosec // it is no more than that
}
