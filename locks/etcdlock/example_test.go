package etcdlock_test //nolint:testableexamples // an example cannot start an etcd: TestExample runs this one

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
)

// A worker that holds the lock of "orders" while it works. The token goes with
// every write.
func Example() {
	if err := shipOrders(context.Background(), os.Getenv("ETCD_ENDPOINT")); err != nil {
		log.Fatal(err)
	}
}

func shipOrders(ctx context.Context, endpoint string) error {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{endpoint},
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	locker, err := etcdlock.New(client, etcdlock.Config{TTL: 15 * time.Second})
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
