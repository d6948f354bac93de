package carrier_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

func TestEnv(t *testing.T) {
	t.Parallel()
	environ := []string{"PATH=/bin", "PGOPTIONS=-c search_path=a,\\ b", "HOME=/root"}
	before := slices.Clone(environ)
	set, err := carrier.SetEnv(environ, orders, stock)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PATH=/bin", "HOME=/root",
		"FENCE_TOKEN=" + bothText,
		`PGOPTIONS=-c search_path=a,\ b -c fence.token=` + bothText,
		"AWS_SESSION_TOKEN=" + bothText,
	}
	if !slices.Equal(set, want) {
		t.Errorf("set:\n%q\nwant\n%q", set, want)
	}
	if !slices.Equal(environ, before) {
		t.Errorf("the caller's environment was changed: %q", environ)
	}
	tokens, err := carrier.EnvTokens(set)
	expect(t, "what was set", tokens, err, nil, orders, stock)

	again, err := carrier.SetEnv(set, newer)
	if err != nil {
		t.Fatal(err)
	}
	want[2], want[3], want[4] = "FENCE_TOKEN="+newerText, `PGOPTIONS=-c search_path=a,\ b -c fence.token=`+newerText, "AWS_SESSION_TOKEN="+newerText
	if !slices.Equal(again, want) {
		t.Errorf("set again:\n%q\nwant\n%q", again, want)
	}

	stripped := carrier.StripEnv(again)
	if want := []string{"PATH=/bin", "HOME=/root", `PGOPTIONS=-c search_path=a,\ b`}; !slices.Equal(stripped, want) {
		t.Errorf("stripped:\n%q\nwant\n%q", stripped, want)
	}
}

func TestEnvOfNothing(t *testing.T) {
	t.Parallel()
	set, err := carrier.SetEnv(nil, orders)
	if err != nil {
		t.Fatal(err)
	}
	if stripped := carrier.StripEnv(set); len(stripped) != 0 {
		t.Errorf("left over: %q", stripped)
	}
	for _, tokens := range [][]guard.Token{nil, {{}}, {orders, newer}} {
		if set, err := carrier.SetEnv([]string{"A=b"}, tokens...); err == nil || set != nil {
			t.Errorf("%v: set %q, %v", tokens, set, err)
		}
	}
}

func TestStripEnvLeavesWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	environ := []string{"AWS_SESSION_TOKEN=IQoJb3JpZ2luX2VjE", "FENCE_TOKENS=x", "fence_token=x", "PGOPTIONS=-c a=b", "NOEQUALS"}
	if stripped := carrier.StripEnv(environ); !slices.Equal(stripped, environ) {
		t.Errorf("stripped to %q", stripped)
	}
}

func TestEnvTokensRefuses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		environ []string
		reason  error
	}{
		{"nothing", nil, guard.ErrNoToken},
		{"empty", []string{"FENCE_TOKEN="}, guard.ErrNoToken},
		{"another name", []string{"XFENCE_TOKEN=" + ordersText, "FENCE_TOKEN_=" + ordersText}, guard.ErrNoToken},
		{"malformed", []string{"FENCE_TOKEN=" + ordersText + " "}, guard.ErrMalformed},
		{"twice", []string{"FENCE_TOKEN=" + ordersText, "FENCE_TOKEN=" + newerText}, guard.ErrMalformed},
		{"twice the same", []string{"FENCE_TOKEN=" + ordersText, "FENCE_TOKEN=" + ordersText}, nil},
	} {
		tokens, err := carrier.EnvTokens(row.environ)
		expect(t, row.name, tokens, err, row.reason, orders)
	}
}

func ExampleSetEnv() {
	token := guard.Token{Resource: "orders", Number: 42, Mode: guard.Exclusive, Holder: "9f8c", Issuer: "k3v9"}
	environ, err := carrier.SetEnv([]string{"PGOPTIONS=-c statement_timeout=5s"}, token)
	for _, variable := range environ {
		fmt.Println(variable)
	}
	fmt.Println(err)

	_, err = carrier.EnvTokens([]string{"FENCE_TOKEN=ft1:x:0:9f8c:k3v9:orders"})
	fmt.Println(errors.Is(err, guard.ErrMalformed))
	// Output:
	// FENCE_TOKEN=ft1:x:42:9f8c:k3v9:orders
	// PGOPTIONS=-c statement_timeout=5s -c fence.token=ft1:x:42:9f8c:k3v9:orders
	// AWS_SESSION_TOKEN=ft1:x:42:9f8c:k3v9:orders
	// <nil>
	// true
}
