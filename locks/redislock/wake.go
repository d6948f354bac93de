package redislock

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

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

// hear receives on the locker's own channel until the locker is closed. The
// subscription outlives lost connections. What was published while there was
// none is found out by asking, for all that wait, as soon as there is one.
func (l *Locker) hear() {
	channel := l.channels + l.name
	messages := l.client.Subscribe(l.ctx)
	defer context.AfterFunc(l.ctx, func() { messages.Close() })()
	// One that fails is made up for when the connection is opened again.
	if err := messages.Subscribe(l.ctx, channel); err != nil {
		l.config.Logger.Warn("subscribe", keyError, err)
	}
	for message := range messages.ChannelWithSubscriptions() {
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
		le.schedule(0)
	}
}
