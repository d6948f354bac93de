package testenv_test

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func TestPgBouncer(t *testing.T) {
	t.Parallel()
	for mode, shared := range map[string]bool{"session": false, "transaction": true} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := testenv.Postgres(t)
			name, password := s.Role(t, "LOGIN")
			through := testenv.PgBouncer(t, s.Database(t), mode)
			one, two := connect(t, through), connect(t, through)
			// In transaction mode one server connection is enough for both.
			const pid = "select pg_backend_pid()"
			if got := simple(t, one, pid) == simple(t, two, pid); got != shared {
				t.Errorf("two clients on one server connection: %v", got)
			}
			if got := simple(t, connect(t, testenv.URLAs(through, name, password)), "select current_user"); got != name {
				t.Errorf("current_user = %s, want %s", got, name)
			}
		})
	}
}
