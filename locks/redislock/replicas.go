package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// ErrNotReplicated is behind the error of an acquisition whose grant has not
// reached Config.Replicas replicas in time. The grant is undone.
var ErrNotReplicated = errors.New("grant is not replicated")

// replicate returns when as many replicas have the grant as the config wants.
func (le *lease) replicate(ctx context.Context) error {
	l := le.locker
	if l.config.Replicas == 0 {
		return nil
	}
	r, err := l.retry(ctx, le.ctx, max(l.config.TTL, openTimeout), le.keepAndWait)
	switch {
	case le.ctx.Err() != nil:
		return context.Cause(le.ctx)
	case err != nil:
		return err
	case r.state != isGranted:
		return errGone
	}
	le.extend(r.sent)
	if int(r.number) < l.config.Replicas {
		return fmt.Errorf("%w: %d of %d replicas have it within %v",
			ErrNotReplicated, r.number, l.config.Replicas, l.config.ReplicaTimeout)
	}
	return nil
}

// keepAndWait keeps the lease alive and waits for the replicas; the number of
// the reply is how many there are. WAIT is about what was written by its own
// connection, and whatever was written before that: so both go in one pipeline,
// and need not go over the connection that brought the grant.
func (le *lease) keepAndWait(ctx context.Context) (reply, error) {
	l := le.locker
	node, _, err := l.node(ctx, le.keys[0])
	if err != nil {
		return reply{}, err
	}
	for _, byHash := range []bool{true, false} {
		sent := time.Now()
		pipe := node.Pipeline()
		keep := le.command(ctx, opKeep, byHash)
		wait := attempt{goredis.NewCmd(ctx, "wait", l.config.Replicas, l.config.ReplicaTimeout.Milliseconds())}
		err = errors.Join(pipe.Process(ctx, keep), pipe.Process(ctx, wait))
		if err == nil {
			_, err = pipe.Exec(ctx)
		}
		if byHash && isNoScript(keep.Err()) {
			continue
		}
		if err != nil {
			return reply{}, err
		}
		r, err := read(keep)
		if err != nil {
			return reply{}, err
		}
		acknowledged, err := wait.Int()
		r.number, r.sent = int64(acknowledged), sent
		return r, err
	}
	return reply{}, err
}
