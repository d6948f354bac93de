package pgproxy

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/migrations"
)

// The fence itself over TLS on both sides, bound or not, and over sockets of
// which nothing but messages can be seen: many, large, copied, cancelled, drained.
func TestFenceOverTLS(t *testing.T) {
	t.Parallel()
	eachSecure(t, func(t *testing.T, s *secureServer) {
		if err := migrations.Up(t.Context(), s.database, migrations.Config{}); err != nil {
			t.Fatal(err)
		}
		s.exec(t, "create table t (id int primary key, v text); grant all on t to public; grant execute on function fence.claim to by_scram")
		f := startFront(t, Config{
			Upstream: Upstream{Address: s.Addr(), TLSMode: TLSVerifyFull, TLS: roots(s.authority.pool)},
			TLS:      clientTLS(s.identity),
		})
		f.session = f.serve
		through := func(number int64) string {
			token := guard.Token{Resource: "orders", Number: number, Mode: guard.Exclusive, Holder: "h", Issuer: "i"}
			return f.via(t, s.as(t, "by_scram", rightPassword, "sslmode", "verify-full", "sslrootcert", s.authority.file(t),
				"channel_binding", "require", "options", "-c fence.token="+token.String()))
		}
		old := openConn(t, through(1))
		const rows = 20_000
		n, err := old.CopyFrom(t.Context(), pgx.Identifier{"t"}, []string{"id", "v"},
			pgx.CopyFromSlice(rows, func(i int) ([]any, error) { return []any{i, strings.Repeat("v", 1000)}, nil }))
		if err != nil || n != rows {
			t.Fatalf("copied %d rows, %v", n, err)
		}
		var all strings.Builder
		if _, err := old.PgConn().CopyTo(t.Context(), &all, "copy t to stdout"); err != nil || strings.Count(all.String(), "\n") != rows {
			t.Errorf("%d rows come back, %v", strings.Count(all.String(), "\n"), err)
		}
		current := openConn(t, through(2))
		if _, err := old.Exec(t.Context(), "insert into t values (-1, 'stale')"); stateOf(err) != "TK001" {
			t.Errorf("a stale write: %v", err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := current.Exec(context.Background(), "update t set v = '' where id = -1; select pg_sleep(600)")
			failed <- err
		}()
		awaitSleep(t, s, "")
		if err := current.PgConn().CancelRequest(t.Context()); err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("CancelRequest: %v", err)
		}
		wantState(t, <-failed, "57014")
		if _, err := current.Exec(t.Context(), "insert into t values (-1, 'current')"); err != nil {
			t.Errorf("a current write: %v", err)
		}
		if err := f.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		wantState(t, current.Ping(t.Context()), "57P01")
	})
}

// A role that may not claim is told so by its first statement, and may read
// without a token all the same.
func TestRoleThatMayNotClaim(t *testing.T) {
	t.Parallel()
	s := startSecure(t, 0)
	if err := migrations.Up(t.Context(), s.database, migrations.Config{}); err != nil {
		t.Fatal(err)
	}
	f := startFront(t, Config{Upstream: Upstream{Address: s.Addr()}})
	f.session = f.serve
	through := f.via(t, s.as(t, "by_scram", rightPassword))
	wantAnswer(t, through, "select 'x'", "x")
	_, err := ask(t, withParams(t, through, "options", "-c fence.token=ft1:x:1:h:i:orders"), "select 'x'")
	wantState(t, err, "TK004")
}
