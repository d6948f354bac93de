package worker

import (
	"context"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
)

// holder is what has been granted a lease. It never looks whether that is lost.
type holder struct {
	worker   *worker
	lease    locks.Lease
	at       Resource
	name     string // of the way
	way      ways.Way
	released bool
	// overstays: it releases the lease after a while, as if it had expired, and
	// works on.
	overstays bool

	known bool          // state is what the register holds, as far as this holder knows
	state history.State // what it has read or written last
}

// hold enters once or a few times with the same token, and works until it is
// refused or has had enough.
func (h *holder) hold(ctx context.Context) {
	if h.worker.dice.IntN(24) == 0 { // it slept before it came here
		h.release(ctx)
		h.worker.nap(ctx, 50*time.Millisecond)
	}
	for tries := 1 + h.worker.dice.IntN(3); tries > 0 && ctx.Err() == nil; tries-- {
		tenure, ok := h.enter(ctx)
		if !ok {
			continue
		}
		refused := h.work(ctx, tenure)
		tenure.Leave()
		if refused && h.worker.dice.IntN(3) > 0 { // some try again all the same
			return
		}
	}
}

// op is an Op of this holder's.
func (h *holder) op(kind history.Kind) history.Op {
	token := h.lease.Token()
	return history.Op{Kind: kind, Way: h.name, Resource: h.at.Name, Number: token.Number, Holder: token.Holder, Shared: token.Mode == guard.Shared}
}

func (h *holder) enter(ctx context.Context) (ways.Tenure, bool) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	h.known = false
	op := h.worker.record.Begin(h.op(history.Claim))
	tenure, err := h.way.Enter(ctx, h.lease.Token(), h.at.Register)
	h.worker.record.End(op, guard.OutcomeOf(err), ways.Reason(err), err)
	return tenure, err == nil
}

// work reads and writes, and reports whether it was refused.
func (h *holder) work(ctx context.Context, t ways.Tenure) (refused bool) {
	sleepy := h.worker.dice.IntN(20) == 0
	pause := func() { h.pause(ctx, sleepy) }
	end := time.Now().Add(h.worker.upTo(h.worker.job.TTL)) // by some ways in everything takes long
	for acts := h.acts(); acts > 0 && ctx.Err() == nil && time.Now().Before(end); acts-- {
		pause()
		if !h.known || h.worker.dice.IntN(8) == 0 {
			if outcome := h.read(ctx, t); outcome != guard.Applied {
				return outcome == guard.Refused
			}
			pause()
		}
		if h.lease.Token().Mode == guard.Shared {
			continue
		}
		if p, ok := t.(ways.Parallel); ok && h.worker.dice.IntN(16) == 0 {
			if h.burst(ctx, p, pause); h.worker.dice.IntN(2) == 0 {
				continue
			}
		}
		if outcome := h.write(ctx, t, pause); outcome != guard.Applied {
			h.known = false
			if outcome == guard.Refused || h.worker.dice.IntN(2) == 0 {
				return outcome == guard.Refused
			}
		}
		if h.overstays && h.worker.dice.IntN(12) == 0 {
			h.release(ctx)
		}
	}
	return false
}

// acts is how many there are at most: a few, so that holders follow each other
// soon, or many, so that a grant is worth its claim.
func (h *holder) acts() int { return 1 + h.worker.dice.IntN(1<<(4+h.worker.dice.IntN(6))) }

// pause is mostly none, often short, and for a sleepy holder, at times, longer
// than its lease. One that has no lock any more is slow, so that others come.
func (h *holder) pause(ctx context.Context, sleepy bool) {
	switch dice := h.worker.dice.IntN(24); {
	case sleepy && dice == 0:
		h.worker.nap(ctx, 2*h.worker.job.TTL)
	case h.released && dice < 8:
		h.worker.nap(ctx, 40*time.Millisecond)
	case dice < 2:
		h.worker.nap(ctx, 4*time.Millisecond)
	}
}

func (h *holder) read(ctx context.Context, t ways.Tenure) guard.Outcome {
	ctx, cancel := bounded(ctx)
	defer cancel()
	op := h.worker.record.Begin(h.op(history.Read))
	s, err := t.Read(ctx)
	outcome := guard.OutcomeOf(err)
	if err == nil {
		op.Seen, h.state, h.known = s, s, true
	}
	h.worker.record.End(op, outcome, ways.Reason(err), err)
	return outcome
}

func (h *holder) write(ctx context.Context, t ways.Tenure, pause func()) guard.Outcome {
	put := func() (history.State, guard.Outcome) { return h.put(ctx, t, pause) }
	if r, ok := t.(ways.Remover); ok && r.Removable() && h.worker.dice.IntN(24) == 0 {
		put = func() (history.State, guard.Outcome) { return h.remove(ctx, r, pause) }
	}
	s, outcome := put()
	if outcome == guard.Applied {
		h.state = s
	}
	return outcome
}

// burst writes several times at once, based on one state. None of them may be
// refused because of the others (I3).
func (h *holder) burst(ctx context.Context, t ways.Parallel, pause func()) {
	var all sync.WaitGroup
	for range 2 + h.worker.dice.IntN(4) {
		all.Go(func() { h.put(ctx, t, pause) })
	}
	all.Wait()
	h.known = false
}

// put is one write, based on what is known.
func (h *holder) put(ctx context.Context, t ways.Tenure, pause func()) (history.State, guard.Outcome) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	op := h.op(history.Write)
	op.Seen = h.state
	op = h.worker.record.Begin(op)
	e := history.Entry{State: history.State{Version: h.state.Version + 1, ID: op.ID}, Number: op.Number, Prev: h.state.ID}
	s, err := t.Write(ctx, e, pause)
	outcome := guard.OutcomeOf(err)
	h.worker.record.End(op, outcome, ways.Reason(err), err)
	return s, outcome
}

// remove deletes the register, and holds it for written: the next write makes it
// anew.
func (h *holder) remove(ctx context.Context, t ways.Remover, pause func()) (history.State, guard.Outcome) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	op := h.op(history.Write)
	op.Seen, op.Removal = h.state, true
	op = h.worker.record.Begin(op)
	err := t.Remove(ctx, pause)
	outcome := guard.OutcomeOf(err)
	h.worker.record.End(op, outcome, ways.Reason(err), err)
	return history.State{Version: h.state.Version + 1, ID: op.ID}, outcome
}
