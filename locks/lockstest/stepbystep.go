package lockstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/locks"
)

// entry is one acquisition in the queue.
type entry struct {
	name   string
	client *client
	shared bool
	cancel context.CancelFunc
	got    chan outcome
	lease  locks.Lease // once it is known
	buried bool        // somebody was granted before whose turn was later
}

type outcome struct {
	lease locks.Lease
	err   error
	at    time.Time
}

// stepByStep takes a step, waits until the service is where the model of its
// queue is, and takes the next. The model: who came first is granted first, and
// a reader together with the readers before it.
func (p *play) stepByStep() {
	for range 12 + p.rng.IntN(12) {
		p.step()
		p.settle()
	}
	for len(p.queue) > 0 {
		p.depart(p.queue[p.rng.IntN(len(p.queue))])
		p.settle()
	}
	p.free(p.clients[1])
}

func (p *play) step() {
	c := p.clients[p.rng.IntN(len(p.clients))]
	switch dice := p.rng.IntN(100); {
	case dice < 40 && len(p.queue) < 8:
		p.arrive(c, p.rng.IntN(2) == 0)
	case dice < 55:
		p.try(c, p.rng.IntN(2) == 0)
	case dice < 65:
		for _, e := range p.queue {
			if e.lease != nil {
				p.demand(p.judge.works(e.lease))
			}
		}
	case dice < 92:
		if len(p.queue) > 0 {
			p.depart(p.queue[p.rng.IntN(len(p.queue))])
		}
	case dice < 94:
		p.say("cut")
		c.link.Cut()
	case dice < 96:
		p.say("lose a reply")
		c.flaky = true
		c.link.DropReplyTo(p.backend.Counts, 1+p.rng.IntN(4))
	default:
		p.crash(p.clients[0])
	}
}

// demand ends the schedule with an error.
func (p *play) demand(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *play) say(format string, args ...any) { p.judge.say(fmt.Sprintf(format, args...)) }

// arrive has c acquire. When it returns, the service has it in its queue.
func (p *play) arrive(c *client, shared bool) {
	ctx, cancel := context.WithCancel(p.ctx)
	p.Cleanup(cancel)
	e := &entry{name: p.nextName(shared), client: c, shared: shared, cancel: cancel, got: make(chan outcome, 1)}
	p.say("%s comes", e.name)
	acquire, resource := c.way(shared, false), p.resource
	done := make(chan struct{})
	p.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		lease, err := acquire(ctx, resource)
		e.got <- outcome{lease, err, time.Now()}
	}()
	p.queue = append(p.queue, e)
}

func (p *play) nextName(shared bool) string {
	p.judge.count("arrivals")
	return fmt.Sprintf("%s%d", map[bool]string{true: "r", false: "w"}[shared], p.judge.counts["arrivals"])
}

// fits reports whether the i-th of the queue holds the lock, by the model.
func (p *play) fits(i int, shared bool) bool {
	for _, before := range p.queue[:i] {
		if !shared || !before.shared {
			return false
		}
	}
	return true
}

// try has c try: it gets the lock if nobody is before it whom it excludes.
func (p *play) try(c *client, shared bool) {
	name := p.nextName(shared)
	p.say("%s tries", name)
	lease, err := c.way(shared, true)(p.ctx, p.resource)
	at := time.Now()
	switch fits := p.fits(len(p.queue), shared); {
	case err == nil && !fits && !p.buried(len(p.queue), shared):
		p.Fatalf("%s got %v, and has to wait", name, lease.Token())
	case err == nil:
		p.demand(p.judge.granted(lease, at))
		p.queue = append(p.queue, &entry{name: name, client: c, shared: shared, cancel: func() {}, lease: lease})
	case errors.Is(err, locks.ErrHeld) && !fits:
		p.judge.count("held")
	case !c.mayGet(err):
		p.Fatalf("%s: %v", name, err)
	default:
		p.judge.count("failed")
	}
}

// depart has an entry leave: a holder releases, a waiter gives up.
func (p *play) depart(e *entry) {
	p.say("%s leaves", e.name)
	i := slices.Index(p.queue, e)
	defer func() { p.queue = slices.Delete(p.queue, i, i+1) }()
	if e.lease != nil {
		p.judge.leaves(e.lease)
		switch err := e.lease.Release(p.ctx); {
		case err == nil:
			p.judge.count("released")
		case !e.client.mayGet(err):
			p.Fatalf("release of %s: %v", e.name, err)
		}
		return
	}
	e.cancel()
	switch o := p.outcome(e); {
	case o.lease != nil && !p.fits(i, e.shared) && !p.buried(i, e.shared):
		p.Fatalf("%s gave up waiting and got %v out of turn", e.name, o.lease.Token())
	case o.lease != nil:
		p.demand(p.judge.granted(o.lease, o.at))
		p.judge.leaves(o.lease)
		p.release(o.lease)
	case errors.Is(o.err, context.Canceled):
		p.judge.count("cancelled")
	case !e.client.mayGet(o.err):
		p.Fatalf("%s, which was cancelled: %v", e.name, o.err)
	}
}

func (p *play) outcome(e *entry) outcome {
	p.Helper()
	select {
	case o := <-e.got:
		return o
	case <-p.ctx.Done():
		p.Fatalf("acquisition of %s does not return", e.name)
	}
	panic("unreachable")
}

// crash cuts a client off until all that it had is over and another one has had
// its turn, and lets it come back.
func (p *play) crash(c *client) {
	if !slices.ContainsFunc(p.queue, func(e *entry) bool { return e.client == c }) {
		p.arrive(c, p.rng.IntN(2) == 0)
		p.settle()
	}
	p.say("crash")
	p.judge.count("crashes")
	c.link.Refuse(true)
	c.flaky = true
	var alive, dead []*entry
	for _, e := range p.queue {
		if e.client == c {
			dead = append(dead, e)
		} else {
			alive = append(alive, e)
		}
	}
	p.queue = alive
	p.arrive(p.clients[1], false)
	p.settle()
	for _, e := range dead {
		if e.lease != nil {
			p.lost(e.lease)
		} else if o := p.outcome(e); o.lease != nil {
			p.Fatalf("%s crashed waiting and got %v", e.name, o.lease.Token())
		}
	}
	c.link.Refuse(false)
}

// settle waits until those hold the lock who do in the model, and nobody else
// is there.
func (p *play) settle() {
	p.eventually(func() bool {
		settled := true
		for i := 0; i < len(p.queue); i++ {
			switch gone, granted := p.look(i); {
			case gone:
				i = -1 // those behind it may be granted now
			case !granted && p.fits(i, p.queue[i].shared):
				settled = false
			}
		}
		return settled && p.service.Entries(p, p.resource) == len(p.queue)
	}, "service and model do not meet: %s", p)
	for _, e := range p.queue {
		if e.lease != nil && !e.client.mortal {
			p.held(e.lease)
		}
	}
}

// String says what the model is, and what the service.
func (p *play) String() string {
	var names []string
	for _, e := range p.queue {
		names = append(names, fmt.Sprintf("%s (client %d, granted %v)", e.name, slices.Index(p.clients, e.client), e.lease != nil))
	}
	return fmt.Sprintf("service has %d entries, model %q", p.service.Entries(p, p.resource), names)
}

// look sees what became of the i-th of the queue.
func (p *play) look(i int) (gone, granted bool) {
	e := p.queue[i]
	if e.lease != nil {
		if e.client.mortal && !holdsAt(e.lease, time.Now()) { // this machine was too slow to keep it
			p.remove(i)
			return true, false
		}
		return false, true
	}
	select {
	case o := <-e.got:
		if o.err != nil {
			if !e.client.mayGet(o.err) {
				p.Fatalf("%s: %v", e.name, o.err)
			}
			p.remove(i)
			return true, false
		}
		if e.buried || !p.fits(i, e.shared) && !p.buried(i, e.shared) {
			p.Fatalf("%s was granted %v out of turn", e.name, o.lease.Token())
		}
		p.demand(p.judge.granted(o.lease, o.at))
		p.say("%s is granted", e.name)
		e.lease = o.lease
		return false, true
	default:
		return false, false
	}
}

// buried reports whether all that are before the i-th of the queue and exclude it
// may have lost their places meanwhile. Then they must have.
func (p *play) buried(i int, shared bool) bool {
	for _, before := range p.queue[:i] {
		if before.shared && shared {
			continue
		}
		if !before.client.mortal && !before.client.flaky || before.lease != nil && holdsAt(before.lease, time.Now()) {
			return false
		}
		before.buried = true
	}
	return true
}

func (p *play) remove(i int) {
	e := p.queue[i]
	p.say("%s is gone", e.name)
	p.judge.count("failed")
	if e.lease != nil {
		p.judge.leaves(e.lease)
	}
	p.queue = slices.Delete(p.queue, i, i+1)
}
