package etcdlock_test

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
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{os.Getenv("ETCD_ENDPOINT")},
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	locker, err := etcdlock.New(client, etcdlock.Config{TTL: 15 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	err = locks.Do(context.Background(), locker, "orders", func(ctx context.Context, lease locks.Lease) error {
		fmt.Println("holding", lease.Token().Resource)
		// store.Claim(ctx, lease.Token()), then store.InTx(ctx, lease.Token(), …)
		return nil
	})
	if errors.Is(err, locks.ErrLost) {
		fmt.Println("lost the lock, somebody else may be at work")
	}
}
