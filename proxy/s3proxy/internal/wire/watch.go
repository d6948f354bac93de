package wire

import (
	"sync"
	"time"
)

// watch is on a client to which the kernel moves what the store sends. As long as it has
// taken all that was sent it is the store that is waited for, and the client's time
// begins anew.
type watch struct {
	answer *Answer
	every  time.Duration

	mu    sync.Mutex
	timer *time.Timer // nil: it has ended
	store time.Duration
}

// watch begins to look at the client, often enough while it has its time.
func (a *Answer) watch() *watch {
	w := &watch{answer: a, every: a.pace.limit / 4}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.every, w.look)
	return w
}

func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer == nil {
		return
	}
	if !w.answer.Owes() {
		w.store += w.every
		w.answer.SendWithin(w.answer.pace.limit)
	}
	w.timer.Reset(w.every)
}

// end ends it, and returns how much time the store took.
func (w *watch) end() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.timer = nil
	return w.store
}
