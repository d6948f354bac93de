package recall

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

func grantOf(resource string, number int64) layout.Grant {
	t := token(number)
	t.Resource = resource
	return layout.NewGrant(t, 0)
}

// What a holder has seen is taken from him neither by others who find nothing there, nor
// by a write of which it is not known what became; but nobody acts on it unseen (I9).
func TestSeenStays(t *testing.T) {
	t.Parallel()
	holder, none := grantOf("orders", 34), layout.State{}
	state := layout.State{ETag: "a", Header: grantOf("orders", 33).Header(layout.Live, layout.NewNonce())}
	for name, c := range map[string]struct {
		do      func(k *Keys)
		current bool
	}{
		"nothing":                          {func(*Keys) {}, true},
		"doubt":                            {func(k *Keys) { k.Doubt("k") }, false},
		"found gone without a grant":       {func(k *Keys) { k.Forget(layout.Grant{}, "k") }, false},
		"absent to an older one":           {func(k *Keys) { k.Set(grantOf("orders", 33), "k", none) }, true},
		"absent to another resource's":     {func(k *Keys) { k.Set(grantOf("invoices", 99), "k", none) }, true},
		"doubt, then seen by an older":     {func(k *Keys) { k.Doubt("k"); k.Set(grantOf("orders", 33), "k", state) }, true},
		"doubt of a key that is not known": {func(k *Keys) { k.Doubt("j") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var k Keys
			k.Set(holder, "k", state)
			c.do(&k)
			if got, seen := k.Find(holder, "k"); got != state || !seen {
				t.Errorf("found %+v, %v", got, seen)
			}
			if _, current := k.Current(holder, "k"); current != c.current {
				t.Errorf("current: %v", current)
			}
		})
	}
	// His own look counts, and an absence is no object's state.
	var k Keys
	k.Set(holder, "k", state)
	k.Set(holder, "k", none)
	if got, current := k.Current(holder, "k"); got != none || !current {
		t.Errorf("current %+v, %v", got, current)
	}
	if got, seen := k.State("k"); seen {
		t.Errorf("state %+v", got)
	}
}
