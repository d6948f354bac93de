package gate

import "testing"

// TestArmed: once a statement may have been prepared that changes the token, by SQL or
// by name, a session that is not fenced is followed from each EXECUTE on.
func TestArmed(t *testing.T) {
	t.Parallel()
	const set = "SELECT set_config('fence.token', $1, false)"
	for arms, arm := range map[string]func(s *session){
		"Query": func(s *session) { s.query("PREPARE c AS " + set); s.server("CPREPARE", "ZI") },
		"Parse": func(s *session) { s.client("P - PREPARE c AS " + set); s.client("S"); s.server("1", "ZI") },
		"DO": func(s *session) {
			s.client("P - DO $$PREPARE c AS " + set + "$$")
			s.client("S")
			s.server("1", "ZI")
			s.Resolved(Pass)
		},
		"by name":  func(s *session) { s.client("P c " + set); s.client("S"); s.server("1", "ZI"); s.Resolved(Pass) },
		"same one": func(s *session) { s.client("P e EXECUTE c(1)"); s.client("P - PREPARE c AS " + set) },
	} {
		for _, runs := range []string{
			"EXECUTE c(1)", "EXPLAIN ANALYZE EXECUTE c(1)", "CREATE TEMP TABLE x AS EXECUTE c(1)",
			"CREATE GLOBAL TEMPORARY TABLE IF NOT EXISTS x (a, b) AS EXECUTE c(1)", "CALL p('execute c')",
		} {
			s := passSession(t)
			if s.client("P - " + runs); s.kind != Pass {
				t.Errorf("%s: followed before that", runs)
			}
			s.client("S")
			s.server("1", "ZI")
			arm(s)
			if s.kind != Pass {
				t.Errorf("%s: already followed before %s", arms, runs)
			}
			if s.client("P - " + runs); s.kind != Slow {
				t.Errorf("%s: not followed from %s on", arms, runs)
			}
		}
		s := passSession(t)
		arm(s)
		for _, other := range []string{"SELECT 1", "CREATE TRIGGER x AFTER INSERT ON t EXECUTE FUNCTION f()", "EXPLAIN SELECT 1", "DEALLOCATE c"} {
			if s.client("P - " + other); s.kind != Pass {
				t.Errorf("%s: followed from %s on", arms, other)
			}
		}
	}
}
