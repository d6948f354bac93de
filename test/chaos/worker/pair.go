package worker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
)

// pair is what has been granted two leases, of two resources that it writes in one
// transaction.
type pair struct {
	worker *worker
	leases ways.Two[locks.Lease]
	at     ways.Two[Resource]
	name   string // of the way
	way    ways.Double
}

// pair acquires a resource together with another one that can be written in the same
// way, and reports whether there is one.
func (w *worker) pair(ctx context.Context, r Resource) bool {
	other := w.job.Resources[w.dice.IntN(len(w.job.Resources))]
	name := r.Ways[w.dice.IntN(len(r.Ways))]
	way, ok := w.keep.way(name).(ways.Double)
	if !ok || other.Name == r.Name || !slices.Contains(other.Ways, name) {
		return false
	}
	p := &pair{worker: w, at: ways.Two[Resource]{r, other}, name: name, way: way}
	slices.SortFunc(p.at[:], func(a, b Resource) int { return cmp.Compare(a.Name, b.Name) }) // or two wait for each other
	for i, r := range p.at {
		service := w.keep.service(ctx, r.Locks)
		if service == nil {
			return true
		}
		within, cancel := context.WithTimeout(ctx, w.job.TTL/4)
		lease, err := service.Acquire(within, r.Name)
		cancel()
		if err != nil {
			return true
		}
		defer func() {
			ctx, cancel := bounded(ctx)
			defer cancel()
			_ = lease.Release(ctx) // else it ends by its time
		}()
		p.leases[i] = lease
	}
	p.hold(ctx)
	return true
}

// hold claims, reads and writes, and does not look whether a lease is lost.
func (p *pair) hold(ctx context.Context) {
	var both ways.Both
	ok := p.act(ctx, history.Claim, nil, func(ctx context.Context, _ ways.Two[history.Op]) (err error) {
		var registers ways.Two[ways.Register]
		var tokens ways.Two[guard.Token]
		for i, lease := range p.leases {
			tokens[i], registers[i] = lease.Token(), p.at[i].Register
		}
		both, err = p.way.EnterBoth(ctx, tokens, registers)
		return err
	})
	if !ok {
		return
	}
	defer both.Leave()
	pause := func() {
		if p.worker.dice.IntN(8) == 0 {
			p.worker.nap(ctx, 8*time.Millisecond)
		}
	}
	var known *ways.Two[history.State]
	for acts := 1 + p.worker.dice.IntN(32); acts > 0 && ctx.Err() == nil; acts-- {
		pause()
		if known == nil {
			known = &ways.Two[history.State]{}
			ok = p.act(ctx, history.Read, known, func(ctx context.Context, _ ways.Two[history.Op]) (err error) {
				*known, err = both.Read(ctx)
				return err
			})
		} else {
			ok = p.act(ctx, history.Write, known, func(ctx context.Context, ops ways.Two[history.Op]) (err error) {
				var e ways.Two[history.Entry]
				for i, op := range ops {
					e[i] = history.Entry{State: history.State{Version: op.Seen.Version + 1, ID: op.ID}, Number: op.Number, Prev: op.Seen.ID}
				}
				*known, err = both.Write(ctx, e, pause)
				return err
			})
		}
		if !ok {
			return
		}
	}
}

// act does something to both and records it. Known is what an act is based on, or,
// afterwards, what a read has seen. Whose token a refusal is about is not asked: none of
// the two was applied, that is what counts.
func (p *pair) act(ctx context.Context, kind history.Kind, known *ways.Two[history.State], do func(context.Context, ways.Two[history.Op]) error) bool {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var ops ways.Two[history.Op]
	for i, lease := range p.leases {
		token := lease.Token()
		op := history.Op{Kind: kind, Way: p.name, Resource: p.at[i].Name, Number: token.Number, Holder: token.Holder}
		if kind == history.Write {
			op.Seen = known[i]
		}
		if i > 0 {
			op.With = ops[0].ID
		}
		ops[i] = p.worker.record.Begin(op)
	}
	err := do(ctx, ops)
	outcome := guard.OutcomeOf(err)
	if outcome == guard.Refused {
		outcome = guard.NotApplied
	}
	for i, op := range ops {
		if kind == history.Read && err == nil {
			op.Seen = known[i]
		}
		p.worker.record.End(op, outcome, ways.Reason(err), err)
	}
	return err == nil
}
