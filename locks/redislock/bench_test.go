package redislock_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

// BenchmarkUncontended is acquire and release by one client. Everything else is
// measured by test/bench/rivals, beside others.
func BenchmarkUncontended(b *testing.B) {
	s := newService(b, testenv.StartRedis(b, testenv.RedisConfig{}))
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr(), ContextTimeoutEnabled: true})
	b.Cleanup(func() { client.Close() })
	locker := newLocker(b, client, redislock.Config{})
	b.ReportAllocs()
	for b.Loop() {
		lease, err := locker.Acquire(b.Context(), "r")
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
