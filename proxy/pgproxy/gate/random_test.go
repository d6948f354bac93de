package gate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// source is where a random conversation comes from; it ends with its bytes.
type source struct{ bytes []byte }

func (s *source) pick(n int) int {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return int(b) % n
}

func (s *source) conversation() []toServer {
	var all []toServer
	names := []string{"", "a", "b"}
	name := func() string { return names[s.pick(len(names))] }
	some := func() word { return everyWord[s.pick(len(everyWord))] }
	for len(s.bytes) > 0 && len(all) < 60 {
		switch s.pick(12) {
		case 0, 1, 2:
			q := toServer{kind: 'Q', words: []word{some()}}
			for s.pick(4) == 1 && len(q.words) < 4 {
				q.words = append(q.words, some())
			}
			all = append(all, q)
		case 3, 4, 5, 6:
			n, p := name(), name()
			all = append(all, toServer{kind: 'P', name: n, words: []word{some()}}, toServer{kind: 'B', portal: p, name: n}, toServer{kind: 'E', portal: p})
			if s.pick(3) > 0 {
				all = append(all, toServer{kind: 'S'})
			}
		case 7:
			all = append(all, toServer{kind: 'P', name: name(), words: []word{some()}})
		case 8:
			all = append(all, toServer{kind: 'B', name: name(), portal: name()})
		case 9:
			all = append(all, toServer{kind: 'E', portal: name()})
		case 10:
			all = append(all, toServer{kind: 'C', name: name()})
		case 11:
			all = append(all, toServer{kind: 'S'})
		}
	}
	return append(all, toServer{kind: 'S'}, toServer{kind: 'Q', words: []word{wRollback}})
}

func tell(conversation []toServer) string {
	var b strings.Builder
	for _, m := range conversation {
		fmt.Fprintf(&b, "  %c name=%q portal=%q %v\n", m.kind, m.name, m.portal, m.words)
	}
	return b.String()
}

// converse has the conversation through a machine, with messages and replies in
// whatever order order picks.
func converse(t *testing.T, conversation []toServer, kind Kind, order *source, b *backend, staleAt int) *relay {
	t.Helper()
	r := &relay{m: newMachine(ReadOnly), b: b, kind: kind}
	r.m.Resolved(kind)
	r.m.DefaultIsolation("serializable")
	next := 0
	for stuck := 0; r.broken == "" && b.violation == "" && stuck < 4; {
		moved := false
		switch order.pick(3) {
		case 0:
			if next < len(conversation) {
				if next == staleAt {
					b.stale = true
				}
				if moved = r.offer(conversation[next]); moved {
					next++
				}
			}
		case 1:
			moved = r.serve()
		case 2:
			moved = r.deliver()
		}
		if moved {
			stuck = 0
			continue
		}
		// Nothing there: try everything once before calling it an end.
		if r.serve() || r.deliver() {
			stuck = 0
			continue
		}
		if next < len(conversation) && r.offer(conversation[next]) {
			next++
			stuck = 0
			continue
		}
		stuck++
	}
	if r.broken == "" && b.violation == "" && next < len(conversation) {
		r.broken = fmt.Sprintf("stuck before message %d", next)
	}
	return r
}

// judge has a conversation in all ways and looks at what it has come to.
func judge(t *testing.T, bytes []byte) {
	t.Helper()
	half := len(bytes) / 2
	conversation := (&source{slices.Clone(bytes[:half])}).conversation()
	for _, kind := range []Kind{Fast, Slow} {
		direct := newBackend()
		for _, m := range conversation {
			direct.handle(m)
		}
		r := converse(t, conversation, kind, &source{slices.Clone(bytes[half:])}, newBackend(), -1)
		if r.b.violation != "" || r.broken != "" {
			t.Fatalf("kind %d: %s %s\n%s", kind, r.b.violation, r.broken, tell(conversation))
		}
		if !r.refused && !lenient(conversation) && !slices.Equal(r.toClient, direct.out) {
			t.Fatalf("kind %d:\n through %q\n direct  %q\n%s", kind, r.toClient, direct.out, tell(conversation))
		}
		b := newBackend()
		b.commits = true
		staleAt := 0
		if len(bytes) > 0 {
			staleAt = int(bytes[0]) % (len(conversation) + 1)
		}
		r = converse(t, conversation, kind, &source{slices.Clone(bytes[half:])}, b, staleAt)
		if r.b.violation != "" || r.broken != "" {
			t.Fatalf("kind %d, stale at %d: %s %s\n%s", kind, staleAt, r.b.violation, r.broken, tell(conversation))
		}
	}
}

// lenient reports whether a conversation has a CALL in a series of messages: it
// runs in a block then, where more is allowed than without one.
func lenient(conversation []toServer) bool {
	for _, m := range conversation {
		if m.kind == 'P' && (m.words[0] == wCall || m.words[0] == wDropAll) {
			return true
		}
	}
	return false
}

// FuzzConversations: in no order of messages and replies is a transaction
// committed that wrote and was not checked, does the client see anything else
// than without the fence, or does anything get stuck (I1, I5, I7).
func FuzzConversations(f *testing.F) {
	for i := range 200 {
		seed := make([]byte, 160)
		x := uint32(i)*2654435761 + 12345
		for j := range seed {
			x = x*1664525 + 1013904223
			seed[j] = byte(x >> 24)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { judge(t, bytes) })
}

// TestConversations is the same for as many as take a second or so.
func TestConversations(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		bytes := make([]byte, 40+r.IntN(300))
		for i := range bytes {
			bytes[i] = byte(r.Uint32())
		}
		judge(t, bytes)
	}
}
