package carrier_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
)

var (
	orders = guard.Token{Resource: "orders", Number: 42, Mode: guard.Exclusive, Holder: "9f8c", Issuer: "k3v9"}
	stock  = guard.Token{Resource: "stock/north & south", Number: 7, Mode: guard.Shared, Holder: "9f8c", Issuer: "k3v9"}
	newer  = guard.Token{Resource: "orders", Number: 43, Mode: guard.Exclusive, Holder: "aa01", Issuer: "k3v9"}
)

const (
	ordersText = "ft1:x:42:9f8c:k3v9:orders"
	newerText  = "ft1:x:43:aa01:k3v9:orders"
	bothText   = ordersText + ",ft1:s:7:9f8c:k3v9:stock/north%20%26%20south"
)

// expect compares what was read from a carrier. A nil reason wants the tokens.
func expect(t *testing.T, what string, tokens []guard.Token, err, reason error, want ...guard.Token) {
	t.Helper()
	switch {
	case reason == nil && (err != nil || !slices.Equal(tokens, want)):
		t.Errorf("%s: read %v, %v, want %v", what, tokens, err, want)
	case reason != nil && (!errors.Is(err, reason) || tokens != nil || guard.OutcomeOf(err) != guard.Refused):
		t.Errorf("%s: read %v, %v (%v), want %v", what, tokens, err, guard.OutcomeOf(err), reason)
	}
}
