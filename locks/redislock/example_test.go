package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

// A worker that holds the lock of "orders" while it works. The token goes with
// every write. If Redis has lost its numbers, and the resource therefore refuses
// the token of the current holder, Heal asks for a higher one.
func Example() { //nolint:testableexamples // an example cannot start a Redis: TestExample runs this one
	if err := shipOrders(context.Background(), os.Getenv("REDIS_ADDR")); err != nil {
		log.Fatal(err)
	}
}

func shipOrders(ctx context.Context, addr string) error {
	client := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
	defer client.Close()
	locker, err := redislock.New(client, redislock.Config{Issuer: "main-redis", TTL: 15 * time.Second})
	if err != nil {
		return err
	}
	defer locker.Close()

	err = locks.Heal(ctx, locker, "orders", func(_ context.Context, lease locks.Lease) error {
		fmt.Println("shipping under", lease.Token())
		return nil // store.Claim(ctx, lease.Token()), then store.InTx(ctx, lease.Token(), …)
	})
	if errors.Is(err, locks.ErrLost) {
		return fmt.Errorf("somebody else may be at work: %w", err)
	}
	return err
}

func TestExample(t *testing.T) {
	t.Parallel()
	if err := shipOrders(t.Context(), testenv.Redis(t).Addr()); err != nil {
		t.Error(err)
	}
}
