package memory_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/memory"
)

func ExampleGuard_Enter() {
	ctx := context.Background()
	g, err := memory.New(memory.Config{})
	if err != nil {
		panic(err)
	}
	balance := 0
	deposit := func(token guard.Token, amount int) error {
		if err := token.MayWrite(); err != nil {
			return err
		}
		entry, err := g.Enter(ctx, token)
		if err != nil {
			return err
		}
		defer entry.Exit()
		balance += amount
		return nil
	}

	// The tokens come from a lock: see the packages below locks.
	old := guard.Token{Resource: "account", Number: 33, Mode: guard.Exclusive, Holder: "one"}
	current := guard.Token{Resource: "account", Number: 34, Mode: guard.Exclusive, Holder: "two"}
	fmt.Println(deposit(old, 100))
	fmt.Println(deposit(current, 10))
	err = deposit(old, 1000) // its lock was lost during a long pause
	fmt.Println(errors.Is(err, guard.ErrStale), balance)
	// Output:
	// <nil>
	// <nil>
	// true 110
}
