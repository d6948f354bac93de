package attempt

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// First attempts ask nobody whether they are repeated, and notes are the fence's own.
func TestNotes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"attempt=1": true, "attempt=1; max=5": true, "attempt=2; max=5": false, "attempt=10": false, "": false, "ttl=20261130T080000Z; attempt=1; max=3": true, "ttl=20261130T080000Z; attempt=12; max=31": false} {
		if got := First(http.Header{"Amz-Sdk-Request": {text}}); got != want {
			t.Errorf("%q is the first: %v", text, got)
		}
	}
	seen := map[string]bool{}
	for _, of := range []Request{{"a", "b", "c", "d"}, {"ab", "", "c", "d"}, {"a", "b", "cd", ""}, {"a", "b", "c", "e"}} {
		seen[of.Note()] = true
		if !layout.Reserved(of.Note()) {
			t.Errorf("%s can be reached by clients", of.Note())
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d notes for 4 requests", len(seen))
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	var m Memory
	one, told := Request{ID: "one"}, refusal.New(refusal.PreconditionFailed, "told")
	if got := m.Find(one); got != nil {
		t.Errorf("nobody was told %v", got)
	}
	m.Add(one, told)
	if got := m.Find(one); got != told {
		t.Errorf("told %v", got)
	}
	if got := m.Find(Request{ID: "one", Client: "another"}); got != nil {
		t.Errorf("another was told %v", got)
	}
	for n := range most + 3 {
		m.Add(Request{ID: strconv.Itoa(n)}, told)
	}
	if len(m.m) > most {
		t.Errorf("%d requests are remembered", len(m.m))
	}
}
