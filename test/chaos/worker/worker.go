package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
)

// Work reads a Job and does it until in ends. Its error is one that should not
// be: that it could not record what happened, above all.
func Work(in io.Reader) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var job Job
	if err := json.Unmarshal(line, &job); err != nil {
		return err
	}
	record, err := history.Create(job.History, job.Name)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { // ends with the process
		defer stop()
		_, _ = io.Copy(io.Discard, lines)
	}()
	kept := newKeep(job)
	var all sync.WaitGroup
	for i := range max(1, job.Hands) {
		all.Go(func() {
			w := &worker{job: job, record: record, dice: dice(job.Seed, uint64(i)), keep: kept[i%len(kept)]}
			for ctx.Err() == nil {
				w.turn(ctx, job.Resources[w.dice.IntN(len(job.Resources))])
			}
		})
	}
	all.Wait()
	for _, k := range kept {
		k.close()
	}
	return record.Close()
}

// worker is one of a process's hands.
type worker struct {
	job    Job
	record *history.Recorder
	dice   *rand.Rand
	keep   *keep
}

// turn is one acquisition of one resource, at times of two, and what is done under
// it.
func (w *worker) turn(ctx context.Context, r Resource) {
	if w.dice.IntN(12) == 0 && w.pair(ctx, r) {
		return
	}
	service := w.keep.service(ctx, r.Locks)
	if service == nil {
		w.nap(ctx, 50*time.Millisecond)
		return
	}
	acquire := service.Acquire
	if r.Shared && w.dice.IntN(8) == 0 {
		acquire = service.AcquireShared
	}
	patience := w.job.TTL / 20
	if w.dice.IntN(3) == 0 {
		patience = w.upTo(2 * w.job.TTL)
	}
	within, cancel := context.WithTimeout(ctx, patience)
	lease, err := acquire(within, r.Name)
	cancel()
	if err != nil {
		w.nap(ctx, 5*time.Millisecond)
		return
	}
	name := r.Ways[w.dice.IntN(len(r.Ways))]
	if ways.Slow(name) && w.dice.IntN(2) == 0 { // others wait for it
		name = r.Ways[w.dice.IntN(len(r.Ways))]
	}
	h := &holder{worker: w, lease: lease, at: r, name: name, way: w.keep.way(name), overstays: w.dice.IntN(3) == 0}
	h.hold(ctx)
	h.release(ctx)
}

// upTo is a random time below d.
func (w *worker) upTo(d time.Duration) time.Duration {
	return time.Duration(w.dice.Int64N(int64(d)))
}

// nap waits for a random time below d, or until ctx ends.
func (w *worker) nap(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(w.upTo(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (h *holder) release(ctx context.Context) {
	if h.released {
		return
	}
	h.released = true
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := h.lease.Release(ctx); err != nil && !errors.Is(err, locks.ErrLost) {
		h.worker.nap(ctx, 5*time.Millisecond)
	}
}

// bounded is a context for one step. It does not end with the work: what is under
// way comes to its own end, so that something is known of it.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), Patience)
}
