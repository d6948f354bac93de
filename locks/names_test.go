package locks_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

func TestNewID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		id := locks.NewID()
		if err := guard.ValidateID(id); err != nil || len(id) < 26 || seen[id] {
			t.Fatalf("id %q: %v", id, err)
		}
		seen[id] = true
	}
}

func TestSegment(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"orders":                 "orders",
		"orders.eu_1~a-b":        "orders.eu_1~a-b",
		"a/b":                    "a%2Fb",
		"a%2Fb":                  "a%252Fb",
		".":                      "%2E",
		"..":                     "%2E.",
		".issuer":                "%2Eissuer",
		"{a}b":                   "%7Ba%7Db",
		"a b":                    "a%20b",
		"é":                      "%C3%A9",
		"sha256=":                "sha256%3D",
		strings.Repeat("a", 255): strings.Repeat("a", 255),
		strings.Repeat("/", 85):  strings.Repeat("%2F", 85),
		strings.Repeat("/", 86):  "sha256=8253e1c020580e56b673e08d1b2b8a23ba4bbe623a949fb96a50b086c1b44913",
	} {
		if got := locks.Segment(name); got != want {
			t.Errorf("Segment(%q) = %q, want %q", name, got, want)
		}
	}
}

// FuzzSegment: a segment keeps to its alphabet and its length, and no two names
// have the same one.
func FuzzSegment(f *testing.F) {
	for _, s := range []string{"orders", "a/b", "a%2Fb", ".", "sha256=", strings.Repeat("{", 255), "\U0001f512"} {
		f.Add(s, s+"x")
	}
	segment := regexp.MustCompile(`^[A-Za-z0-9_~%=-][A-Za-z0-9_~.%=-]{0,254}$`)
	f.Fuzz(func(t *testing.T, a, b string) {
		if guard.ValidateResource(a) != nil || guard.ValidateResource(b) != nil {
			return
		}
		x, y := locks.Segment(a), locks.Segment(b)
		if !segment.MatchString(x) {
			t.Errorf("Segment(%q) = %q", a, x)
		}
		if (x == y) != (a == b) {
			t.Errorf("Segment(%q) = %q, Segment(%q) = %q", a, x, b, y)
		}
	})
}
