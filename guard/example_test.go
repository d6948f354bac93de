package guard_test

import (
	"errors"
	"fmt"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Client 1 pauses past its lease with token 33; client 2 takes over with 34.
func ExampleAdmit() {
	client1 := guard.Token{Resource: "orders", Number: 33, Mode: guard.Exclusive, Holder: "one", Issuer: "k3v9"}
	client2 := guard.Token{Resource: "orders", Number: 34, Mode: guard.Exclusive, Holder: "two", Issuer: "k3v9"}

	var mark guard.Mark // what the resource remembers
	mark, err := guard.Admit(mark, client1)
	fmt.Println(mark.Writer, err)
	mark, err = guard.Admit(mark, client2)
	fmt.Println(mark.Writer, err)
	mark, err = guard.Admit(mark, client1)
	fmt.Println(mark.Writer, err)
	fmt.Println(errors.Is(err, guard.ErrStale), guard.OutcomeOf(err))
	// Output:
	// 33 <nil>
	// 34 <nil>
	// 34 fence: stale token: x 33 for "orders" (mark: writer 34, reader 0, issuer "k3v9")
	// true refused
}

func ExampleParse() {
	token, err := guard.Parse("ft1:x:42:9f8c2ab1:k3v9:caf%C3%A9")
	fmt.Println(token.Resource, token.Number, token.Mode, err)
	_, err = guard.Parse("ft1:x:042:9f8c2ab1:k3v9:orders")
	fmt.Println(err)
	// Output:
	// café 42 x <nil>
	// fence: malformed token: number is not a decimal above 0 without sign or leading zero for "orders"
}

func ExampleToken_String() {
	token := guard.Token{Resource: "orders/2026", Number: 42, Mode: guard.Shared, Holder: "9f8c2ab1"}
	fmt.Println(token)
	// Output:
	// ft1:s:42:9f8c2ab1::orders/2026
}

func ExampleOutcomeOf() {
	_, refusal := guard.Admit(guard.Mark{Writer: 34}, guard.Token{Resource: "orders", Number: 33, Mode: guard.Exclusive})
	for _, err := range []error{
		nil,
		fmt.Errorf("commit: %w", refusal),
		errors.New("connection reset"),
	} {
		fmt.Println(guard.OutcomeOf(err))
	}
	// Output:
	// applied
	// refused
	// unknown
}
