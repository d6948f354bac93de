package carrier_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

func TestHeader(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	tokens, err := carrier.HeaderTokens(h)
	expect(t, "no header", tokens, err, guard.ErrNoToken)

	if err := carrier.SetHeader(h, orders, stock); err != nil {
		t.Fatal(err)
	}
	if h.Get("fence-token") != bothText || len(h) != 1 {
		t.Errorf("set: %v", h)
	}
	tokens, err = carrier.HeaderTokens(h)
	expect(t, "what was set", tokens, err, nil, orders, stock)

	if err := carrier.SetHeader(h, newer); err != nil {
		t.Fatal(err)
	}
	tokens, err = carrier.HeaderTokens(h)
	expect(t, "set again", tokens, err, nil, newer)
	if err := carrier.SetHeader(h); err == nil {
		t.Error("no token was set")
	}

	carrier.StripHeader(h)
	if len(h) != 0 {
		t.Errorf("stripped: %v", h)
	}
}

func TestHeaderTokensRefuses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		sent   []string
		reason error
	}{
		{"empty", []string{""}, guard.ErrNoToken},
		{"malformed", []string{"42"}, guard.ErrMalformed},
		{"twice", []string{ordersText, newerText}, guard.ErrMalformed},
		{"twice the same", []string{ordersText, ordersText}, guard.ErrMalformed},
		{"twice, once empty", []string{ordersText, ""}, guard.ErrMalformed},
		{"twice, merged on the way", []string{ordersText + "," + newerText}, guard.ErrMalformed},
		{"twice, merged with a space", []string{ordersText + ", ft1:x:7:a:i:stock"}, guard.ErrMalformed},
	} {
		h := http.Header{}
		for _, text := range row.sent {
			h.Add("fence-token", text)
		}
		tokens, err := carrier.HeaderTokens(h)
		expect(t, row.name, tokens, err, row.reason)
	}
}

func ExampleSetHeader() {
	request, err := http.NewRequest(http.MethodPut, "http://localhost/orders/7", nil)
	if err != nil {
		panic(err)
	}
	token := guard.Token{Resource: "orders", Number: 42, Mode: guard.Exclusive, Holder: "9f8c", Issuer: "k3v9"}
	if err := carrier.SetHeader(request.Header, token); err != nil {
		panic(err)
	}
	fmt.Println(request.Header.Get(carrier.Header))
	// Output:
	// ft1:x:42:9f8c:k3v9:orders
}
