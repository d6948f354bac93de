package gateway

import (
	"strings"
	"testing"
)

// A key is fenced if a resource covers it, and by the longest prefix.
func TestCovered(t *testing.T) {
	t.Parallel()
	g := &Gateway{config: Config{Resources: []Resource{{"b", "orders/", "orders"}, {"b", "orders/old/", "archive"}, {"c", "", "all"}}}}
	for place, want := range map[string]string{
		"b/orders/1": "orders", "b/orders/old/1": "archive", "b/orders/": "orders", "b/orders": "", "b/x": "", "b/Orders/1": "", "c/x": "all", "c/": "all", "d/orders/1": "",
	} {
		bucket, key, _ := strings.Cut(place, "/")
		if got := g.covered(bucket, key); got != want {
			t.Errorf("%s belongs to %q, want %q", place, got, want)
		}
	}
	for bucket, want := range map[string]bool{"b": true, "c": true, "d": false} {
		if g.touches(bucket) != want {
			t.Errorf("touches %s: %v", bucket, !want)
		}
	}
	g.config.Untokened = Allow
	for place, want := range map[string]string{
		"b/orders/1": "fenced", "b/x": "free", "b/x/": "free", "b//orders/1": "refused", "b/a/../orders/1": "refused", "b/./x": "refused", "b/x//": "refused", "d//orders/1": "free",
	} {
		bucket, key, _ := strings.Cut(place, "/")
		fenced, err := (&exchange{g: g}).fenced(bucket, key)
		got := "free"
		if fenced {
			got = "fenced"
		}
		if err != nil {
			got = "refused"
		}
		if got != want {
			t.Errorf("%s is %s, want %s", place, got, want)
		}
	}
}
