package redislock

import (
	"context"
	"errors"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// pingAfter is how long a subscription may be silent before it is asked whether
// it lives, and then before it is taken for dead.
const pingAfter = 3 * time.Second

// listen has the locker hear, from now on, when one of its leases is granted.
func (l *Locker) listen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listening || l.done {
		return
	}
	l.listening = true
	l.wg.Go(l.hear)
}

// hear receives on the locker's own channel until the locker is closed. What was
// published while there was no subscription is found out by asking, for all that
// wait, as soon as there is one. It reads by itself, and not through the client's
// own Channel, which would pass each message on to another goroutine.
func (l *Locker) hear() {
	for l.ctx.Err() == nil {
		l.hearUntilSilent()
		sleep(l.ctx, minPause)
	}
}

// hearUntilSilent returns when the locker is closed, or when its connection
// seems to be dead. One that is broken is opened again by the client.
func (l *Locker) hearUntilSilent() {
	messages := l.client.Subscribe(l.ctx)
	defer messages.Close()
	defer context.AfterFunc(l.ctx, func() { messages.Close() })()
	// One that fails is made up for when the connection is opened again.
	if err := messages.Subscribe(l.ctx, l.channels+l.name); err != nil {
		l.config.Logger.Warn("subscribe", keyError, err)
	}
	silent := false
	for l.ctx.Err() == nil {
		message, err := messages.ReceiveTimeout(l.ctx, pingAfter)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			if silent {
				return
			}
			silent = true
			err = messages.Ping(l.ctx)
		case err == nil:
			silent = false
		}
		if err != nil {
			sleep(l.ctx, maxPause/5)
			continue
		}
		switch message := message.(type) {
		case *goredis.Subscription:
			for _, le := range l.all() {
				le.hurry()
			}
		case *goredis.Message:
			l.wake(message.Payload)
		}
	}
}

// wake takes the news that a lease is granted.
func (l *Locker) wake(payload string) {
	member, number, ok := parseWake(payload)
	if !ok {
		return
	}
	l.mu.Lock()
	le := l.leases[member]
	l.mu.Unlock()
	if le != nil {
		le.grant(number)
	}
}

// hurry asks at once if the lease still waits.
func (le *lease) hurry() {
	select {
	case <-le.granted:
	default:
		le.schedule(0, 0)
	}
}
