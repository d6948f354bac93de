package bypass

import (
	"strings"
	"testing"
)

// under is what is fenced: a prefix of one bucket, and so what may be anywhere in it.
func under(bucket, prefix string) func(b, key string) bool {
	return func(b, key string) bool { return b == bucket && (key == "" || strings.HasPrefix(key, prefix)) }
}

func enter(t *testing.T, g *Gate, bucket, key string) *Write {
	t.Helper()
	w, ok := g.Enter(t.Context(), bucket, key)
	if !ok {
		t.Fatalf("%s/%s is not let in", bucket, key)
	}
	t.Cleanup(w.End)
	return w
}

func over(w *Write) bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}

// Who is inside where it is fenced is told, and nobody else comes in there.
func TestShut(t *testing.T) {
	t.Parallel()
	var g Gate
	one, anywhere, gone := enter(t, &g, "b", "orders/1"), enter(t, &g, "b", ""), enter(t, &g, "b", "orders/2")
	enter(t, &g, "b", "other")
	enter(t, &g, "c", "orders/1")
	gone.Over()
	inside := map[*Write]bool{}
	for _, w := range g.Shut(under("b", "orders/")) {
		inside[w] = true
	}
	if len(inside) != 2 || !inside[one] || !inside[anywhere] {
		t.Errorf("inside are %d", len(inside))
	}
	for _, key := range []string{"orders/1", ""} {
		if _, ok := g.Enter(t.Context(), "b", key); ok {
			t.Errorf("%q is let in", key)
		}
	}
	enter(t, &g, "b", "other")
	if over(one) || !over(gone) {
		t.Error("it is not known who is over")
	}
	one.End()
	if !over(one) || one.Context().Err() == nil || one.WasCut() {
		t.Error("its end is not one")
	}
	if left := g.Shut(under("b", "other")); len(left) != 3 { // two of them, and one that may be anywhere
		t.Errorf("%d are inside elsewhere", len(left))
	}
	enter(t, &g, "b", "orders/1")
}

// A write that is over is not cut any more: its answer may still be read.
func TestCut(t *testing.T) {
	t.Parallel()
	var g Gate
	w, answered := enter(t, &g, "b", "k"), enter(t, &g, "b", "l")
	answered.Over()
	for _, w := range []*Write{w, answered} {
		w.Cut()
	}
	if w.Context().Err() == nil || !w.WasCut() || over(w) {
		t.Error("it is not cut")
	}
	if answered.Context().Err() != nil || answered.WasCut() {
		t.Error("one that is over is cut")
	}
}
