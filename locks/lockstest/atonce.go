package lockstest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/locks"
)

// atOnce lets clients loose, each with several goroutines, while their
// connections break and one of them crashes. What is checked is the judge's.
func (p *play) atOnce() {
	const goroutines, rounds = 6, 6
	crashes := p.rng.IntN(4) == 0
	crashed := make(chan struct{})
	stop := time.AfterFunc(time.Duration(p.rng.IntN(40))*time.Millisecond, func() {
		defer close(crashed)
		if crashes {
			p.judge.count("crashes")
			p.clients[0].link.Refuse(true)
		}
	}).Stop
	var all sync.WaitGroup
	for i := range goroutines {
		c, rng := p.clients[i%len(p.clients)], rand.New(rand.NewPCG(p.rng.Uint64(), uint64(i)))
		all.Go(func() {
			for range rounds {
				if !p.act(c, rng, crashes && c.mortal) {
					return
				}
			}
		})
	}
	all.Wait()
	if !stop() {
		<-crashed
	}
	p.clients[0].link.Refuse(false)
	p.entries(0)
	p.free(p.clients[1])
}

// act acquires somehow, works and releases. It reports whether the client may
// go on.
func (p *play) act(c *client, rng *rand.Rand, doomed bool) bool {
	shared, try, hasty := rng.IntN(2) == 0, rng.IntN(4) == 0, rng.IntN(3) == 0
	ctx := p.ctx
	if hasty {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(30))*time.Millisecond)
		defer cancel()
	}
	cut := rng.IntN(12) == 0
	if cut {
		c.link.Cut()
	}
	lease, err := c.way(shared, try)(ctx, p.resource)
	at := time.Now()
	switch {
	case errors.Is(err, locks.ErrHeld):
		p.judge.count("held")
		return true
	case err != nil && ctx.Err() != nil && p.ctx.Err() == nil:
		p.judge.count("cancelled")
		return true
	case err != nil && (doomed || c.mayGet(err)):
		p.judge.count("failed")
		return !doomed
	case err != nil:
		p.Errorf("acquire: %v", err)
		return false
	}
	err = p.judge.granted(lease, at)
	for range rng.IntN(3) {
		nap := time.NewTimer(time.Duration(rng.IntN(2000)) * time.Microsecond)
		<-nap.C
		err = errors.Join(err, p.judge.works(lease))
	}
	if err != nil {
		p.Error(err)
	}
	p.judge.leaves(lease)
	switch err := lease.Release(p.ctx); {
	case err == nil:
		p.judge.count("released")
	case errors.Is(err, context.DeadlineExceeded):
		p.judge.count("slow") // this machine; it is released a moment later
	case !doomed && !c.mayGet(err):
		p.Errorf("release: %v", err)
	}
	return true
}
