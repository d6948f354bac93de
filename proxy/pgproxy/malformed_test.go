package pgproxy

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// A malformed token is refused in the words of the database, whose hint tells how a token
// reads, whether the proxy or the database has seen it.
func TestMalformedTokenHasAHint(t *testing.T) {
	t.Parallel()
	sc := newScene(t, testenv.Postgres(t), Config{})
	said := func(what string, err error) *pgconn.PgError {
		var said *pgconn.PgError
		if !errors.As(err, &said) || said.Code != "TK006" || !strings.HasPrefix(said.Message, "fence: malformed token: ") || strings.Count(said.Message, "fence:") != 1 {
			t.Fatalf("%s: %v", what, err)
		}
		return said
	}
	_, err := sc.connect(sc.url).Exec(t.Context(), "SELECT fence.claim('orders')")
	hint := said("the database", err).Hint
	for _, token := range []string{"orders", "ft1:x:0:h:i:orders", sc.token(1).String() + ",orders"} {
		through := sc.connect(sc.via(""))
		sc.exec(through, "SET fence.token = '"+token+"'")
		_, err := through.Exec(t.Context(), "SELECT 1")
		if got := said(token, err); got.Hint != hint || hint == "" {
			t.Errorf("%s: %q has hint %q, want %q", token, got.Message, got.Hint, hint)
		}
	}
}
