package redislock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/locks"
)

const (
	// How long an attempt waits for an answer.
	minLimit = 500 * time.Millisecond
	maxLimit = 5 * time.Second
	// How long to wait between attempts.
	minPause = 20 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

// errSilent is the end of an attempt that was not answered in time. The client
// does not cut a request short when its ctx ends.
var errSilent = errors.New("no answer from Redis")

// retry sends a request until it is answered, which must be safe to repeat, or
// until ctx or life ends, and for at most within. An attempt that is not answered
// is given up after a while, since another connection, or another primary, may
// answer; then attempts get longer, in case Redis is slow. The reply is marked as
// doubtful if there was one that was not answered, also if there is an error.
func (l *Locker) retry(ctx, life context.Context, within time.Duration, request func(ctx context.Context) (reply, error)) (reply, error) {
	begun := time.Now()
	first, err := l.once(ctx, life, within, request)
	if err == nil {
		return first, nil
	}
	doubtful := !answered(err)
	ctx, cancel := context.WithDeadline(ctx, begun.Add(within))
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	limit, pause := l.limit(), minPause
	for {
		jitter := rand.N(pause) //nolint:gosec // it only spreads the attempts
		if final(err) || ctx.Err() != nil || !sleep(ctx, pause/2+jitter) {
			return reply{doubtful: doubtful}, explain(err)
		}
		r, next := l.bounded(ctx, life, limit, request)
		if next == nil {
			r.doubtful = doubtful
			return r, nil
		}
		doubtful = doubtful || !answered(next)
		if ctx.Err() == nil || answered(next) { // else it was cut short, and the one before tells more
			err = next
		}
		limit, pause = min(2*limit, max(within, maxLimit)), min(2*pause, maxPause)
	}
}

// once is the first attempt. To wait for it in another goroutine would double what
// it costs, so it is made in this one where the client can be trusted to end it in
// time: if Redis is silent, that ctx or life ends is then noticed after minLimit.
func (l *Locker) once(ctx, life context.Context, within time.Duration, request func(ctx context.Context) (reply, error)) (reply, error) {
	if !l.prompt {
		return l.bounded(ctx, life, min(within, l.limit()), request)
	}
	ctx, cancel := context.WithTimeout(ctx, min(within, minLimit))
	defer cancel()
	return request(ctx)
}

// limit is how long an attempt waits for an answer at first.
func (l *Locker) limit() time.Duration { return min(max(l.config.TTL/10, minLimit), maxLimit) }

// bounded returns when request does, when ctx or life ends, or after limit. But
// for the first case request goes on, for as long as the timeouts of the client
// let it.
func (l *Locker) bounded(ctx, life context.Context, limit time.Duration, request func(ctx context.Context) (reply, error)) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type answer struct {
		reply reply
		err   error
	}
	done := make(chan answer, 1)
	if !l.spawn(func() {
		r, err := request(ctx)
		done <- answer{r, err}
	}) {
		return reply{}, locks.ErrClosed
	}
	select {
	case a := <-done:
		return a.reply, a.err
	case <-ctx.Done():
	case <-life.Done():
	}
	return reply{}, fmt.Errorf("%w within %v", errSilent, limit)
}

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// answered reports whether err is the word of Redis, or of this package: the
// request was not carried out, and will not be.
func answered(err error) bool {
	var server goredis.Error
	return errors.As(err, &server) || errors.Is(err, locks.ErrClosed) || errors.Is(err, goredis.ErrClosed) ||
		errors.Is(err, errPolicy)
}

// final reports whether it is of no use to repeat the request.
func final(err error) bool {
	if !answered(err) {
		return false
	}
	for _, passing := range []string{
		"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MOVED", "ASK", "BUSY ",
		"NOSCRIPT", "max number of clients",
	} {
		if goredis.HasErrorPrefix(err, passing) {
			return false
		}
	}
	return true
}

// explain says what an error means that a Redis has for those who may not use
// it as this package does.
func explain(err error) error {
	switch {
	case errors.Is(err, errPolicy):
	case goredis.HasErrorPrefix(err, "NOPERM"):
		return fmt.Errorf("user may not do what these locks need (~prefix* &prefix* and +@read +@write +@scripting +publish +subscribe +info): %w", err)
	case goredis.HasErrorPrefix(err, "unknown command"):
		return fmt.Errorf("these locks need a Redis with EVALSHA: %w", err)
	}
	return err
}

// ended is the error of a ctx that has ended, with its cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
