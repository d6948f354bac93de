package gate

import "testing"

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
