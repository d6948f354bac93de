package wire

import (
	"io"
	"sync"
	"time"
)

// Waiting is a client that waits for an answer which takes long, and is told
// that it is still coming. Nobody else may use the Answer before Stop.
type Waiting struct {
	once    sync.Once
	stopped chan struct{}
	ended   chan struct{}
	begun   bool // read it after ended
}

// KeepAlive begins to send blanks, one after each time of every. Before the
// first of them the answer begins: with what begin does to its header, status
// 200, and prolog.
func (a *Answer) KeepAlive(every time.Duration, begin func(), prolog string) *Waiting {
	w := &Waiting{stopped: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-w.stopped:
				return
			case <-tick.C:
			}
			if !w.begun {
				w.begun = true
				begin()
				_, _ = io.WriteString(a, prolog)
			}
			if _, err := io.WriteString(a, " "); err != nil {
				return // the client has gone, as the context of its request tells
			}
			a.Flush()
		}
	}()
	return w
}

// Stop ends it, and reports whether the answer has begun. It may be called again.
func (w *Waiting) Stop() bool {
	w.once.Do(func() { close(w.stopped) })
	<-w.ended
	return w.begun
}
