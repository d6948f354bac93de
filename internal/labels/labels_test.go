package labels_test

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/labels"
)

func TestBounded(t *testing.T) {
	t.Parallel()
	b := labels.New(2)
	for _, c := range []struct{ value, want string }{
		{"a", "a"}, {"b", "b"}, {"c", labels.Other}, {"a", "a"}, {"", labels.Other}, {"b", "b"},
	} {
		if got := b.Of(c.value); got != c.want {
			t.Errorf("%q: %q, want %q", c.value, got, c.want)
		}
	}
}
