package pgstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

// A schema that was removed and installed again under live connections takes a
// few refusals to notice, and lets nothing stale through.
func TestReinstalled(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Postgres(t), Config{})
	pool := openPool(t, e.url, inMode(pgx.QueryExecModeCacheStatement, 1))
	store := newStore(t, pool, Config{})
	for range 2 {
		if err := store.InTx(t.Context(), writer(33), update(1)); err != nil {
			t.Fatal(err)
		}
	}
	c := migrations.Config{Grant: []string{pool.Config().ConnConfig.User}}
	if err := errors.Join(migrations.Down(t.Context(), e.admin, c), migrations.Up(t.Context(), e.admin, c)); err != nil {
		t.Fatal(err)
	}
	applied := 2
	for attempt := 1; ; attempt++ {
		err := store.InTx(t.Context(), writer(33), update(1))
		if err == nil {
			applied++
			break
		}
		if outcome := guard.OutcomeOf(err); attempt == 4 || outcome != guard.NotApplied && outcome != guard.Refused {
			t.Fatalf("attempt %d: %v, outcome %v", attempt, err, outcome)
		}
	}
	if got := n(t, e, 1); got != applied {
		t.Errorf("n = %d, want %d", got, applied)
	}
}

// What is wrong with the database's setup is said with what to do about it.
func TestNotSetUp(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	says := func(t *testing.T, err error, what string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), what) || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("%v, outcome %v; want it to say %q", err, guard.OutcomeOf(err), what)
		}
	}
	t.Run("no schema", func(t *testing.T) {
		t.Parallel()
		store := newStore(t, openPool(t, s.Database(t), nil), Config{})
		says(t, store.Claim(t.Context(), writer(1)), `run "fenceproxy migrate up"`)
		says(t, store.InTx(t.Context(), writer(1), update(1)), `run "fenceproxy migrate up"`)
		_, err := store.Mark(t.Context(), "orders")
		says(t, err, `run "fenceproxy migrate up"`)
	})
	t.Run("version", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		e.asAdmin(t, "create or replace function fence.version() returns int language sql immutable parallel safe return 1")
		says(t, e.store.Claim(t.Context(), writer(1)), `version 1, this program needs 4: run "fenceproxy migrate up"`)
		for _, version := range []int{schemaVersion, 99} {
			e.asAdmin(t, fmt.Sprintf("create or replace function fence.version() returns int language sql immutable parallel safe return %d", version))
			store := newStore(t, openPool(t, e.admin, nil), Config{})
			if err := store.Claim(t.Context(), writer(int64(version))); err != nil {
				t.Errorf("version %d: %v", version, err)
			}
		}
	})
	t.Run("no grant", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		role, password := s.Role(t, "LOGIN")
		store := newStore(t, openPool(t, testenv.URLAs(e.admin, role, password), nil), Config{})
		err := store.Claim(t.Context(), writer(1))
		says(t, err, "fenceproxy migrate up --grant "+role)
		if strings.Contains(err.Error(), password) {
			t.Error("the error has the password in it")
		}
	})
	t.Run("no grant of another kind", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		e.asAdmin(t, "revoke execute on function pg_control_checkpoint() from public")
		err := e.store.InTxOptions(t.Context(), writer(1), TxOptions{TrackCommit: true}, update(1))
		says(t, err, "pg_control_checkpoint")
		if strings.Contains(err.Error(), "migrate up") {
			t.Errorf("%v: no migration helps", err)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		link := testenv.NewLink(t, s.Addr(), testenv.LinkConfig{Protocol: testenv.PostgresWire})
		link.Refuse(true)
		store := newStore(t, openPool(t, testenv.URLAs(testenv.URLVia(s.Database(t), link.Addr()), "somebody", "s3cret"), nil), Config{})
		err := store.Claim(t.Context(), writer(1))
		says(t, err, "acquire connection")
		if strings.Contains(err.Error(), "s3cret") {
			t.Error("the error has the password in it")
		}
	})
	t.Run("bad tokens", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		for _, bad := range []guard.Token{{}, writer(0), writer(-1), {Resource: "a\x00b", Number: 1, Mode: guard.Exclusive}, {Resource: strings.Repeat("a", 256), Number: 1, Mode: guard.Exclusive}} {
			for _, err := range []error{e.store.Claim(t.Context(), bad), e.store.InTx(t.Context(), bad, update(1))} {
				if !errors.Is(err, guard.ErrMalformed) || guard.OutcomeOf(err) != guard.Refused {
					t.Errorf("%+v: %v", bad, err)
				}
			}
		}
	})
}
