package locks_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenceproxy/fenceproxy/locks"
)

// Do runs a function under a lock, whatever lock service it comes from.
func ExampleDo() {
	var locker locks.Locker = newFake() // etcdlock.New(client, etcdlock.Config{})
	err := locks.Do(context.Background(), locker, "orders", func(ctx context.Context, lease locks.Lease) error {
		fmt.Println("token", lease.Token().Number)
		return ctx.Err() // ended with a cause that matches locks.ErrLost if the lease was lost
	})
	switch {
	case errors.Is(err, locks.ErrLost):
		fmt.Println("the lock was lost on the way")
	case err != nil:
		fmt.Println(err)
	}
	// Output: token 1
}
