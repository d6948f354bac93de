package gate

import (
	"fmt"
	"testing"
)

// TestLastWord: that of the server's reaches the client, whatever was under way.
func TestLastWord(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*session{
		"nothing":   fastSession(t),
		"statement": func() *session { s := fastSession(t); s.query("SELECT 1"); return s }(),
		"exchange":  func() *session { s := fastSession(t); s.Own(); return s }(),
		"rollback": func() *session {
			s := slowSession(t).enterBlock()
			s.query("COMMIT")
			s.server("ETK001", "ZE") // the proxy rolls back
			return s
		}(),
	} {
		for _, severity := range []string{"FATAL", "PANIC"} {
			body := "SFATAAL\x00V" + severity + "\x00C57P01\x00\x00"
			if got := s.Server('E', []byte(body)); got != (Answer{}) {
				t.Errorf("%s: %s is answered by %v", name, severity, got)
			}
		}
	}
}

// TestManySyncs: what is known of those under way is bounded.
func TestManySyncs(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*session{"fast": fastSession(t), "pass": passSession(t)} {
		for range maxBoundaries {
			if got := s.client("S"); got != "forward" {
				t.Fatalf("%s: a Sync is answered by %s", name, got)
			}
		}
		for _, message := range []string{"S", "Q SELECT 1", "P - SELECT 1"} {
			if got := s.client(message); got != "wait" {
				t.Errorf("%s: %s after %d Syncs is answered by %s", name, message, maxBoundaries, got)
			}
		}
		for range maxBoundaries {
			s.server("ZI")
		}
		if got := s.client("S"); got != "forward" {
			t.Errorf("%s: a Sync after all replies is answered by %s", name, got)
		}
	}
}

// TestManyCopyDones: those of which the server has not said that it takes them
// are bounded, and none is taken for the end of a copy that comes later.
func TestManyCopyDones(t *testing.T) {
	t.Parallel()
	s := passSession(t)
	for range 2 * maxCopies {
		if got := s.client("c"); got != "forward" {
			t.Fatalf("a CopyDone with nothing under way is answered by %s", got)
		}
	}
	s.client("B - -")
	for range maxCopies {
		if got := s.client("c"); got != "forward" {
			t.Fatalf("a CopyDone behind a Bind is answered by %s", got)
		}
	}
	if got := s.client("c"); got != "flush" {
		t.Errorf("a CopyDone behind %d more is answered by %s", maxCopies, got)
	}
	s.server("2")
	if !s.Answered() {
		t.Fatal("the Bind is not answered")
	}
	if got := s.client("c"); got != "forward" || len(s.copyEnded) != 0 {
		t.Errorf("after the reply it is answered by %s, and %d are known", got, len(s.copyEnded))
	}
	s.query("COPY t FROM STDIN")
	s.server("G")
	if !s.copyIn {
		t.Error("an old CopyDone is taken for the end of a later copy")
	}
}

// TestVersionUnknown: a server that has not said its version counts as old.
func TestVersionUnknown(t *testing.T) {
	t.Parallel()
	m := New(ReadOnly)
	m.Resolved(Slow)
	if s := (&session{t, m}); s.query("INSERT INTO t VALUES (1)") != "begin enter leave+commit" {
		t.Error("it is not taken for one where read-only can be lifted")
	}
}

// TestManyNames: what is known of statements that are prepared and closed without
// a Sync is bounded.
func TestManyNames(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*session{"fast": fastSession(t), "slow": slowSession(t), "pass": passSession(t)} {
		for i := range maxTouched {
			if got := s.client(fmt.Sprintf("P n%d BEGIN", i)); got != "forward" {
				t.Fatalf("%s: Parse %d is answered by %s", name, i, got)
			}
		}
		for _, message := range []string{"P more BEGIN", "C n1"} {
			if got := s.client(message); got != "refusal" {
				t.Errorf("%s: %s after so many is answered by %s", name, message, got)
			}
		}
		if got := s.client("P more SELECT 1"); got != "forward" {
			t.Errorf("%s: what is just work is answered by %s", name, got)
		}
		if len(s.touched) != maxTouched {
			t.Errorf("%s: %d changes are kept", name, len(s.touched))
		}
	}
	s := fastSession(t)
	for i := range maxTouched {
		s.client(fmt.Sprintf("P n%d BEGIN", i))
	}
	s.client("S")
	if got := s.client("P more BEGIN"); got != "wait" {
		t.Errorf("behind a batch under way it is answered by %s", got)
	}
	for range maxTouched {
		s.server("1")
	}
	s.server("ZI")
	if got := s.client("P more BEGIN"); got != "forward" {
		t.Errorf("after all replies it is answered by %s", got)
	}
}
