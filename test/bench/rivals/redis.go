package rivals

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	ours "github.com/fenceproxy/fenceproxy/locks/redislock"
	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
)

// redisBench is the Redis that all use.
type redisBench struct {
	addr     string
	requests atomic.Int64
}

func redisFamily() *family {
	r := &redisBench{}
	return &family{
		name: "Redis",
		start: func(b *bed.Bed) string {
			r.addr = testenv.StartRedis(b, testenv.RedisConfig{}).Addr()
			info, err := r.client(b).InfoMap(b.Context(), "server").Result()
			b.Must(err)
			return "Redis " + info["Server"]["redis_version"] + " without persistence"
		},
		requests: r.requests.Load,
		rivals: []rival{
			{"redislock", r.joinOurs, r.holdOurs},
			{"redsync", r.joinRedsync, r.holdRedsync},
			{
				"bsm/redislock, 5 ms",
				func(b *bed.Bed, resource string) contender { return r.joinBSM(b, resource, 5*time.Millisecond) },
				r.holdBSM,
			},
			{
				"bsm/redislock, 100 ms",
				func(b *bed.Bed, resource string) contender { return r.joinBSM(b, resource, 100*time.Millisecond) },
				r.holdBSM,
			},
		},
	}
}

// client is the same for all.
func (r *redisBench) client(b *bed.Bed) *goredis.Client {
	client := goredis.NewClient(&goredis.Options{Addr: r.addr, ContextTimeoutEnabled: true})
	client.AddHook(r)
	b.Cleanup(func() { client.Close() })
	return client
}

// DialHook implements goredis.Hook.
func (r *redisBench) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessHook implements goredis.Hook.
func (r *redisBench) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		r.requests.Add(1)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements goredis.Hook.
func (r *redisBench) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		r.requests.Add(1)
		return next(ctx, cmds)
	}
}

func (r *redisBench) locker(b *bed.Bed) *ours.Locker {
	locker, err := ours.New(r.client(b), ours.Config{Issuer: "bench", TTL: ttl})
	b.Must(err)
	b.Cleanup(func() { locker.Close() })
	return locker
}

func (r *redisBench) joinOurs(b *bed.Bed, resource string) contender {
	return joinLocker(r.locker(b), resource)
}

func (r *redisBench) holdOurs(b *bed.Bed) func(ctx context.Context, n int) error {
	return holdLocker(r.locker(b))
}

// joinLocker is the same for all locks of this project.
func joinLocker(locker locks.Locker, resource string) contender {
	var lease locks.Lease
	return contender{
		func(ctx context.Context) (err error) { lease, err = locker.Acquire(ctx, resource); return err },
		func(ctx context.Context) error { return lease.Release(ctx) },
	}
}

func holdLocker(locker locks.Locker) func(ctx context.Context, n int) error {
	return func(ctx context.Context, n int) error {
		_, err := locker.Acquire(ctx, fmt.Sprintf("held-%d", n))
		return err
	}
}

func (r *redisBench) joinRedsync(b *bed.Bed, resource string) contender {
	// Its delays are the default ones, 50 to 250 ms; it does not give up.
	mutex := redsync.New(redsyncredis.NewPool(r.client(b))).
		NewMutex("redsync:"+resource, redsync.WithExpiry(ttl), redsync.WithTries(1<<30))
	return contender{
		mutex.LockContext,
		func(ctx context.Context) error { _, err := mutex.UnlockContext(ctx); return err },
	}
}

func (r *redisBench) holdRedsync(b *bed.Bed) func(ctx context.Context, n int) error {
	rs := redsync.New(redsyncredis.NewPool(r.client(b)))
	return func(ctx context.Context, n int) error {
		return rs.NewMutex(fmt.Sprintf("redsync:held-%d", n), redsync.WithExpiry(patience)).LockContext(ctx)
	}
}

func (r *redisBench) joinBSM(b *bed.Bed, resource string, poll time.Duration) contender {
	client := redislock.New(r.client(b))
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(poll)}
	key := fmt.Sprintf("bsm-%v:%s", poll, resource)
	var lock *redislock.Lock
	return contender{
		func(ctx context.Context) (err error) { lock, err = client.Obtain(ctx, key, ttl, options); return err },
		func(ctx context.Context) error { return lock.Release(ctx) },
	}
}

func (r *redisBench) holdBSM(b *bed.Bed) func(ctx context.Context, n int) error {
	client := redislock.New(r.client(b))
	prefix := "bsm:" + locks.NewID() + ":"
	return func(ctx context.Context, n int) error {
		_, err := client.Obtain(ctx, fmt.Sprint(prefix, n), patience, nil)
		return err
	}
}

// renews says whether a lock is kept alive by itself.
func renews(name string) bool {
	return name != "redsync" && !strings.HasPrefix(name, "bsm/")
}
