package migrations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

// forEverybody is all that PUBLIC may call. Whoever adds to it has thought
// about what any role can do to others with it.
var forEverybody = []string{
	"ancestors(regclass)", "check()", "check(text)", "enter(text)", "family(regclass)", "guard()", "leave(text)", "malformed(text)",
	"protect(regclass, text)", "raise_refusal(text)", "refuse_write(text, text, text)", "resource_flaw(text)", "resource_of(regclass)",
	"selftest()", "ticket(text)", "token_for(text, text)", "unbound()", "unprotect(regclass)", "version()",
}

func list(t *testing.T, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(describe(err))
	}
	return lines
}

// callable is what a role may call, by the types of the arguments alone.
func callable(t *testing.T, conn *pgx.Conn, role string) []string {
	t.Helper()
	functions := list(t, conn, `select replace(oid::regprocedure::text, 'fence.', '') from pg_proc
		where pronamespace = 'fence'::regnamespace and has_function_privilege($1, oid, 'execute')`, role)
	for i, f := range functions {
		functions[i] = strings.ReplaceAll(strings.ReplaceAll(f, `"`, ""), ",", ", ")
	}
	slices.Sort(functions)
	return functions
}

// An ordinary role can check and protect its own tables; it can claim, evict,
// adopt, and write or even read the marks only if it was granted.
func TestPublicCanOnlyCheck(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.cast(t)
		holding["checked"](t, s)
		role, url := d.login(t, "")
		conn := connect(t, url)
		if got := callable(t, s.next, role); !slices.Equal(got, forEverybody) {
			t.Errorf("everybody may call %q, want %q", got, forEverybody)
		}
		for _, sql := range []string{
			"select fence.claim('%s')", "select fence.evict('%[2]s', 99)", "select fence.blockers('%[2]s')", "select fence.holders('%[2]s')",
			"select fence.adopt('%[2]s', 'j')", "select fence.terminate(%[3]d)", "select fence.make_way('%[2]s', null, 1, '0', true)",
			"select fence.verify('%s', null)", "select fence.lock_claims('%[2]s', 99, '0', true, now())",
			"table fence.marks", "table fence.adoptions", "table fence.migrations",
			"insert into fence.marks (resource) values ('x')", "update fence.marks set writer = 99", "delete from fence.marks", "truncate fence.marks",
			"insert into fence.adoptions values ('x', 1, '', '', 0, '', 0, 'x', now(), '1')", "do $$ begin lock table fence.marks; end $$",
			"select setval('fence.s_1', 1)", "select nextval('fence.s_1')", "alter sequence fence.s_1 no cycle", "drop sequence fence.s_1",
			"select nextval('fence.marks_id_seq')", "create table fence.mine (n int)", "create function fence.mine() returns int language sql return 1",
			"drop schema fence cascade", "alter table fence.marks disable trigger all", "set role fence_owner", "select setval('fence.selftest_seq', 7)",
			"create or replace function fence.guard() returns trigger language plpgsql as 'begin return null; end'",
			"select pg_terminate_backend(%[3]d)",
		} {
			_, err := conn.Exec(t.Context(), fmt.Sprintf(sql+" -- %[1]s %[2]s %[3]d", s.r.writer(99), s.r, s.old.PgConn().PID()))
			if stateOf(err) != "42501" {
				t.Errorf("%s: %v, want SQLSTATE 42501", sql, describe(err))
			}
		}
		exec(t, s.old, "commit") // is still there
		for _, sql := range []string{
			"select fence.version(), fence.selftest()", "select count(*) from fence.status",
			fmt.Sprintf("select fence.check('%s')", s.r.writer(33)), fmt.Sprintf("select fence.ticket('%s')", s.r.writer(33)),
			fmt.Sprintf("set fence.token = '%s'; select fence.check()", s.r.writer(33)),
			fmt.Sprintf("select pg_sequence_last_value(%d::oid::regclass)", s.ticket.seq),
		} {
			exec(t, conn, sql)
		}
		if m := markOf(t, s.next, s.r); m.Writer != 33 {
			t.Errorf("mark is %+v", m)
		}
	})
}

// Config.Grant gives what a holder needs and no more, and never to PUBLIC.
func TestGrant(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.open(t)
		role, url := d.login(t, "")
		if err := migrations.Up(t.Context(), d.url, migrations.Config{Grant: []string{role}}); err != nil {
			t.Fatal(err)
		}
		want := append([]string{"blockers(text)", "claim(text, interval, boolean)", "evict(text, bigint)"}, forEverybody...)
		slices.Sort(want)
		if got := callable(t, conn, role); !slices.Equal(got, want) {
			t.Errorf("a granted role may call %q, want %q", got, want)
		}
		own := connect(t, url)
		claim(t, own, resource("r").writer(34))
		exec(t, own, "select count(*) from fence.marks, fence.adoptions, fence.blockers('r'), fence.evict('r', 34)")
		fails(t, own, "42501", "select fence.adopt('r', 'j')")
		fails(t, own, "42501", "update fence.marks set since = now()")
	})
}

// Of a role that is not there nobody is granted anything, and nothing is installed.
func TestGrantToNobody(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		d := &database{url: s.Database(t), server: s}
		role, _ := d.login(t, "")
		for _, nobody := range []string{"no such role", "public", "PUBLIC"} {
			if err := migrations.Up(t.Context(), d.url, migrations.Config{Grant: []string{role, nobody}}); err == nil {
				t.Errorf("granted to %s", nobody)
			}
			if state, err := migrations.Status(t.Context(), d.url); err != nil || state.Installed != 0 {
				t.Errorf("%s: %+v, %v; want nothing installed", nobody, state, err)
			}
		}
	})
}

// A bug that was here: default privileges give a new function an ACL at once,
// and the seal took those that have one for sealed.
func TestDefaultPrivilegesDoNotOpen(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		d := &database{url: s.Database(t), server: s}
		role, url := d.login(t, "")
		owner, ownerURL := d.login(t, "NOINHERIT")
		conn := d.open(t)
		exec(t, conn, fmt.Sprintf(`alter default privileges for role %s grant all on functions to postgres;
			alter default privileges for role %[1]s grant all on tables to public;
			alter default privileges for role %[1]s grant all on sequences to public`, owner))
		exec(t, conn, fmt.Sprintf("do $$ begin execute format('alter database %%I owner to %s', current_database()); end $$", owner))
		// Not of fence_owner, which is the cluster's: so the schema is the role's own.
		if err := migrations.Up(t.Context(), ownerURL, migrations.Config{}); err != nil {
			t.Fatal(err)
		}
		if got := query[string](t, conn, "select nspowner::regrole::text from pg_namespace where nspname = 'fence'"); got != owner {
			t.Fatalf("owner is %s", got)
		}
		if got := callable(t, conn, role); !slices.Equal(got, forEverybody) {
			t.Errorf("everybody may call %q, want %q", got, forEverybody)
		}
		claim(t, connect(t, ownerURL), resource("r").writer(34))
		own := connect(t, url)
		for _, sql := range []string{"table fence.marks", "table fence.adoptions", "update fence.marks set writer = 99", "select setval('fence.s_1', 1)", "select nextval('fence.s_1')"} {
			fails(t, own, "42501", sql)
		}
		exec(t, own, "select fence.check($1)", resource("r").writer(34))
	})
}

// Every function that runs with its owner's rights fixes its search_path, and
// the ones that do not, qualify every name: a caller's own schema, temporary or
// not, changes nothing.
func TestSearchPathCannotBeHijacked(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		s.protected(t)
		claim(t, s.next, s.r.writer(34))
		loose := list(t, s.next, `select oid::regprocedure::text from pg_proc where pronamespace = 'fence'::regnamespace and prosecdef
			and (proconfig is null or not 'search_path=pg_catalog, pg_temp' = any (proconfig))`)
		if len(loose) > 0 {
			t.Errorf("functions with their owner's rights and the caller's search_path: %q", loose)
		}
		role, url := d.login(t, "")
		exec(t, s.next, fmt.Sprintf("grant all on %s to %s; create schema evil authorization %[2]s", s.table, role))
		conn := connect(t, url)
		exec(t, conn, `create function evil.concat(variadic text[]) returns text language sql as $$ select 'same' $$;
			create function evil.current_setting(text, boolean) returns text language sql as $$ select 'same' $$;
			create function evil.yes(text, text) returns boolean language sql as $$ select true $$;
			create operator evil.= (leftarg = text, rightarg = text, function = evil.yes);
			create operator evil.~~ (leftarg = text, rightarg = text, function = evil.yes);
			create function evil.check(text) returns boolean language sql as $$ select true $$;
			create function evil.pg_sequence_last_value(regclass) returns bigint language sql as $$ select 0::bigint $$;
			create function evil.transaction_timestamp() returns timestamptz language sql as $$ select 'infinity'::timestamptz $$;
			create domain evil.text as pg_catalog.text;
			create temp table marks (resource text); create temp table pg_locks (pid int); create temp table pg_roles (oid oid)`)
		for _, path := range []string{"evil", "evil, pg_catalog", "pg_temp, evil, pg_catalog", "evil, pg_temp, fence, pg_catalog"} {
			exec(t, conn, "set search_path = "+path)
			exec(t, conn, "select pg_catalog.set_config('fence.token', $1, false)", s.r.writer(33))
			fails(t, conn, "TK001", "insert into public."+s.table+" values (1)")
			fails(t, conn, "TK001", "select fence.check()")
			fails(t, conn, "TK001", "select fence.check($1)", s.r.writer(33))
			for _, domain := range []string{"holds_token", "enters", "leaves"} {
				fails(t, conn, "TK001", "select 'allow'::fence."+domain)
			}
			fails(t, conn, "TK001", "select array[$1, 0]::bigint[]::fence.holds_ticket", int64(s.ticket.seq))
			fails(t, conn, "TK004", "select 'x'::fence.bound_token")
			exec(t, conn, "select pg_catalog.set_config('fence.token', $1, false)", s.r.writer(34))
			exec(t, conn, "insert into public."+s.table+" values (1)")
			exec(t, conn, "select fence.check(), fence.selftest()")
		}
	})
}

// Nor does the search_path of whoever installs the domains, whose constraints
// are resolved then, with a schema of somebody else's in front of it.
func TestDomainsResolveInCatalog(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		const resolved = "select string_agg(format('%s %s', conname, regexp_replace(conbin::text, ':location -?[0-9]+', '', 'g')), e'\n' order by conname) from pg_constraint where contypid <> 0 and connamespace = 'fence'::regnamespace"
		s := d.stage(t)
		before := query[string](t, s.next, resolved)
		exec(t, s.next, `create schema evil; grant usage on schema evil to public;
			create function evil.yes(text, text) returns boolean language sql as $$ select true $$;
			create function evil.yes(bigint, bigint) returns boolean language sql as $$ select true $$;
			create function evil.zero(bigint, int) returns bigint language sql as $$ select 0::bigint $$;
			create operator evil.= (leftarg = text, rightarg = text, function = evil.yes);
			create operator evil.<> (leftarg = text, rightarg = text, function = evil.yes);
			create operator evil.= (leftarg = bigint, rightarg = bigint, function = evil.yes);
			create operator evil.<< (leftarg = bigint, rightarg = int, function = evil.zero);
			create operator evil.>> (leftarg = bigint, rightarg = int, function = evil.zero);
			create function evil.current_setting(text, boolean) returns text language sql as $$ select 'same' $$;
			create function evil.pg_sequence_last_value(regclass) returns bigint language sql as $$ select 0::bigint $$;
			create function evil.pg_advisory_xact_lock_shared(int, int) returns void language sql as $$ $$;
			create domain evil.text as pg_catalog.text; create domain evil.oid as pg_catalog.oid; create domain evil.regclass as pg_catalog.regclass;
			create domain evil.int4 as pg_catalog.int4; create domain evil.int8 as pg_catalog.int8; create domain evil.bool as pg_catalog.bool`)
		for _, path := range []string{"evil, pg_catalog", "evil, fence, pg_catalog"} {
			exec(t, s.next, "drop domain fence.holds_token, fence.holds_ticket, fence.bound_token, fence.leaves, fence.enters, fence.present, fence.refusal")
			exec(t, s.next, "set search_path = "+path)
			exec(t, s.next, upFile(t, 5))
			exec(t, s.next, "reset search_path")
			if got := query[string](t, s.next, resolved); got != before {
				t.Errorf("with %s: the constraints are\n%s\nwant\n%s", path, got, before)
			}
			conn := s.wired(t)
			carry(t, conn, s.r.writer(33))
			trace, _ := ask(t, conn, first.bind(s.r.writer(32), ticket{s.ticket.seq, s.ticket.epoch ^ 1}), simple("select 1"))
			traced(t, path, trace, "2 3 T D[1] C(SELECT 1) Z(I)") // by the check of the setting
		}
	})
}
