package redislock

import (
	"context"
	"errors"
	"slices"
	"time"
)

// maxTogether is how many leases are renewed in one request. Redis does nothing
// else meanwhile, for a millisecond or two.
const maxTogether = 100

// renew keeps the lease alive, and asks whether it is granted; and those leases
// with it whose turn comes soon, in the same request. From then on they go
// together. A lease that gets no answer that way asks again by itself.
func (le *lease) renew() {
	group := le.locker.gather(le)
	switch len(group) {
	case 0:
		return // whoever keeps it alive schedules the next time
	case 1:
		le.beating.Unlock()
		le.keep()
		return
	}
	results := le.locker.renewTogether(group)
	for i, le := range group {
		le.beating.Unlock()
		if i < len(results) && results[i].err == nil {
			le.kept(results[i].reply)
		} else {
			le.locker.spawn(le.keep)
		}
	}
}

// gather returns first and those that may be renewed together with it, or nobody
// if first is being renewed. They are locked; nobody else renews them meanwhile.
func (l *Locker) gather(first *lease) []*lease {
	l.gathering.Lock()
	defer l.gathering.Unlock()
	if !first.beating.TryLock() {
		return nil
	}
	now := time.Now()
	type candidate struct {
		lease *lease
		early time.Time
	}
	var candidates []candidate
	for _, le := range l.all() {
		if early := le.earliest(); le != first && !early.IsZero() && !now.Before(early) {
			candidates = append(candidates, candidate{le, early})
		}
	}
	// Those that went together the last time do so again.
	slices.SortFunc(candidates, func(a, b candidate) int { return a.early.Compare(b.early) })
	group := []*lease{first}
	for _, c := range candidates {
		if len(group) < maxTogether && c.lease.beating.TryLock() {
			group = append(group, c.lease)
		}
	}
	return group
}

// earliest is when the lease may be renewed together with another one.
func (le *lease) earliest() time.Time {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.early
}

type result struct {
	reply reply
	err   error
}

// renewTogether makes one attempt for all, and returns nothing if that ends
// without an answer.
func (l *Locker) renewTogether(group []*lease) []result {
	results := make([]result, len(group))
	_, err := l.once(l.ctx, l.ctx, l.config.TTL, func(ctx context.Context) (reply, error) {
		pipe := l.client.Pipeline()
		commands := make([]attempt, len(group))
		var err error
		for i, le := range group {
			commands[i] = le.command(ctx, opKeep, true)
			err = errors.Join(err, pipe.Process(ctx, commands[i]))
		}
		if err != nil {
			return reply{}, err
		}
		sent := time.Now()
		// What fails is told by each command too.
		_, _ = pipe.Exec(ctx)
		for i, command := range commands {
			results[i].reply, results[i].err = read(command)
			results[i].reply.sent = sent
		}
		return reply{}, nil
	})
	if err != nil {
		return nil
	}
	return results
}

// keep keeps the lease alive, and asks whether it is granted.
func (le *lease) keep() {
	if !le.beating.TryLock() {
		return
	}
	r, err := le.askToKeep()
	le.beating.Unlock()
	if err == nil {
		le.kept(r)
	}
}

// kept takes the answer to a renewal.
func (le *lease) kept(r reply) {
	switch {
	case le.ctx.Err() != nil:
	case r.state == isGranted || r.state == isWaiting:
		le.heard(r)
	default:
		le.lose(errGone)
	}
}

// askToKeep asks until the lease is over: also what is no passing trouble for
// Redis, like a key that somebody has overwritten, may pass in time.
func (le *lease) askToKeep() (reply, error) {
	for {
		r, err := le.ask(le.ctx, le.ctx, le.locker.config.TTL, opKeep)
		if err == nil || le.ctx.Err() != nil {
			return r, err
		}
		le.locker.config.Logger.Warn("keep lock alive", keyResource, le.token.Resource, keyHolder, le.token.Holder, keyError, err)
		if !sleep(le.ctx, maxPause) {
			return r, err
		}
	}
}
