package redislock

import (
	"context"
	_ "embed" // lock.lua
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

//go:embed lock.lua
var source string

// What lock.lua does.
const (
	opAcquire = "acquire" // get the lock, or a place in the queue
	opTry     = "try"     // get the lock, or leave no trace
	opKeep    = "keep"    // live on, and ask whether it is one's turn
	opLeave   = "leave"   // give up the lock, or the place
	opBury    = "bury"    // the same, and never come back: a late opAcquire is refused
)

// What it answers.
const (
	isGranted = "granted"
	isWaiting = "waiting"
	isBusy    = "busy"
	isGone    = "gone"
	isDead    = "dead"
	isLeft    = "left"
)

// reply is an answer of lock.lua.
type reply struct {
	state  string
	number int64         // if granted
	wait   time.Duration // if waiting: when to ask again; below 0: no need
	// sent is the time, before the request that was answered was sent.
	sent time.Time
	// doubtful: an earlier attempt of the request was not answered, and may
	// have been carried out or be still on its way.
	doubtful bool
}

// attempt is a command that the client does not repeat by itself: whoever
// repeats it must know that it was sent before.
type attempt struct{ *goredis.Cmd }

// NoRetry implements goredis.Cmder.
func (attempt) NoRetry() bool { return true }

// command makes the call of lock.lua, by its hash or by its text.
func (le *lease) command(ctx context.Context, op string, byHash bool) attempt {
	l := le.locker
	args := make([]any, 0, 3+len(le.keys)+5)
	if byHash {
		args = append(args, "evalsha", l.hash)
	} else {
		args = append(args, "eval", source)
	}
	args = append(args, len(le.keys))
	for _, key := range le.keys {
		args = append(args, key)
	}
	args = append(args, op, le.member, l.config.TTL.Milliseconds(), le.floor, l.channels)
	return attempt{goredis.NewCmd(ctx, args...)}
}

// run calls lock.lua once. A Redis that does not have it has started since:
// it gets it, unless that one is refused.
func (le *lease) run(ctx context.Context, op string) (reply, error) {
	l := le.locker
	cmd := le.command(ctx, op, true)
	err := l.client.Process(ctx, cmd)
	if isNoScript(err) {
		l.unchecked(le.keys[0])
		if op == opAcquire || op == opTry {
			if err := l.checkPolicy(ctx, le.keys[0]); err != nil {
				return reply{}, err
			}
		}
		cmd = le.command(ctx, op, false)
		err = l.client.Process(ctx, cmd)
	}
	if err != nil {
		return reply{}, err
	}
	return read(cmd)
}

func isNoScript(err error) bool { return goredis.HasErrorPrefix(err, "NOSCRIPT") }

// read makes a reply of what lock.lua returned.
func read(cmd attempt) (reply, error) {
	items, err := cmd.StringSlice()
	if err != nil {
		return reply{}, err
	}
	if len(items) == 0 {
		return reply{}, errors.New("script returned nothing")
	}
	r := reply{state: items[0]}
	if r.state != isGranted && r.state != isWaiting {
		return r, nil
	}
	if len(items) != 2 {
		return reply{}, fmt.Errorf("script returned %q", items)
	}
	n, err := strconv.ParseInt(items[1], 10, 64)
	if err != nil {
		return reply{}, fmt.Errorf("script returned %q: %w", items, err)
	}
	if r.state == isGranted {
		r.number = n
	} else {
		r.wait = time.Duration(n) * time.Millisecond
	}
	return r, nil
}

// ask calls lock.lua until it answers, which is safe: whoever is there already, or
// gone already, is so once. It gives up as retry does.
func (le *lease) ask(ctx, life context.Context, within time.Duration, op string) (reply, error) {
	return le.locker.retry(ctx, life, within, func(ctx context.Context) (reply, error) {
		sent := time.Now()
		r, err := le.run(ctx, op)
		r.sent = sent
		return r, err
	})
}

// parseWake reads what lock.lua publishes.
func parseWake(payload string) (member string, number int64, ok bool) {
	member, text, ok := strings.Cut(payload, " ")
	if !ok {
		return "", 0, false
	}
	number, err := strconv.ParseInt(text, 10, 64)
	return member, number, err == nil
}
