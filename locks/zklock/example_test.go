package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

// A worker that holds the lock of "orders" while it works. The token goes with
// every write.
func Example() { //nolint:testableexamples // an example cannot start a ZooKeeper: TestExample runs this one
	if err := shipOrders(context.Background(), os.Getenv("ZOOKEEPER")); err != nil {
		log.Fatal(err)
	}
}

func shipOrders(ctx context.Context, server string) error {
	dial := zklock.Dial{
		Servers: []string{server}, // all members of the ensemble
		Auth:    []zklock.Auth{{Scheme: "digest", Credentials: "shipping:secret"}},
	}
	locker, err := zklock.New(dial, zklock.Config{TTL: 15 * time.Second})
	if err != nil {
		return err
	}
	defer locker.Close()

	err = locks.Do(ctx, locker, "orders", func(_ context.Context, lease locks.Lease) error {
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
	if err := shipOrders(t.Context(), testenv.ZooKeeper(t).Addr()); err != nil {
		t.Error(err)
	}
}
