package recall

import (
	"context"
	"strconv"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

func token(number int64) guard.Token {
	return guard.Token{Resource: "orders", Number: number, Mode: guard.Exclusive, Holder: "h", Issuer: "i"}
}

func markOf(t guard.Token) guard.Mark {
	return guard.Mark{Issuer: t.Issuer, Writer: t.Number, Holder: t.Holder}
}

// A mark that was read before a claim, and is learned when the newer one has been
// forgotten, does not refuse the current holder (I3): what it lacks is claimed again.
func TestOlderMarkLearnedLate(t *testing.T) {
	t.Parallel()
	var c Claims
	claims := 0
	claim := func(_ context.Context, by guard.Token) (layout.Grant, error) {
		claims++
		c.Learn(by.Resource, markOf(by))
		return layout.NewGrant(by, 0), nil
	}
	if _, err := c.Once(t.Context(), token(34), claim); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ { // until it is forgotten
		c.mu.Lock()
		_, known := c.marks["orders"]
		c.mu.Unlock()
		if !known {
			break
		}
		c.Learn(strconv.Itoa(i), markOf(token(1)))
	}
	c.Learn("orders", markOf(token(33)))
	if _, ok, err := c.Find(token(34)); ok || err != nil {
		t.Errorf("found %v, %v", ok, err)
	}
	if _, err := c.Once(t.Context(), token(34), claim); err != nil || claims != 2 {
		t.Errorf("%d claims, %v", claims, err)
	}
	if _, ok, err := c.Find(token(34)); !ok || err != nil {
		t.Errorf("found %v, %v", ok, err)
	}
	c.Learn("orders", markOf(token(35)))
	if _, ok, err := c.Find(token(34)); !ok || err == nil {
		t.Errorf("a stale token: found %v, %v", ok, err)
	}
}
