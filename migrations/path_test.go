package migrations_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fenceproxy/fenceproxy/migrations"
)

// trap makes a schema with a function, an operator and a type of the name of
// each that PostgreSQL has, as far as anybody can make them. The functions
// raise.
const trap = `create schema trap; do $do$
declare
	f record;
begin
	perform set_config('client_min_messages', 'error', true);
	for f in select distinct proname, pg_get_function_identity_arguments(oid) as args, prorettype::regtype as result, proretset
		from pg_proc where pronamespace = 'pg_catalog'::regnamespace and prokind = 'f' and provariadic = 0
	loop
		begin
			execute format('create function trap.%I(%s) returns %s%s language plpgsql as $$ begin raise exception ''trap: %%'', %L; end $$',
				f.proname, f.args, case when f.proretset then 'setof ' else '' end, f.result, f.proname);
		exception when others then null; -- of types that no function in plpgsql has
		end;
	end loop;
	for f in select o.oprname, o.oprleft::regtype as l, o.oprright::regtype as r, p.proname
		from pg_operator o join pg_proc p on p.oid = o.oprcode where o.oprnamespace = 'pg_catalog'::regnamespace
	loop
		begin
			execute format('create operator trap.%s (function = trap.%I, %s rightarg = %s)', f.oprname, f.proname,
				case when f.l::oid <> 0 then format('leftarg = %s,', f.l) else '' end, f.r);
		exception when others then null;
		end;
	end loop;
	for f in select typname from pg_type where typnamespace = 'pg_catalog'::regnamespace and typtype = 'b' and typelem = 0 loop
		execute format('create domain trap.%I as pg_catalog.%1$I', f.typname);
	end loop;
end $do$; grant usage on schema trap to public`

// A bug that was here: what anybody had created in a schema of the installer's
// search_path ran with the installer's rights, or with those of the owner at
// each claim.
func TestSearchPathDoesNotMatter(t *testing.T) {
	t.Parallel()
	bare(t, func(t *testing.T, d *database) {
		whole := install(t, d.server).snapshot(t)
		admin := d.open(t)
		exec(t, admin, trap)
		if n := query[int](t, admin, "select count(*) from pg_proc where pronamespace = 'trap'::regnamespace"); n < 1000 {
			t.Fatalf("only %d traps", n)
		}
		role, _ := d.login(t, "")
		path := func(change string) {
			exec(t, admin, "do $$ begin execute format('alter database %I "+change+"', current_database()); end $$")
		}
		path("set search_path = trap, pg_catalog")
		for range 2 {
			if err := migrations.Up(t.Context(), d.url, migrations.Config{Grant: []string{role}}); err != nil {
				t.Fatal(describe(err))
			}
			if state, err := migrations.Status(t.Context(), d.url); err != nil || state.SelfTest != "ok" || !state.Evictable || len(state.Pending) > 0 {
				t.Fatalf("status is %+v, %v", state, err)
			}
		}
		exec(t, admin, fmt.Sprintf("revoke all on function fence.claim(text, interval, boolean), fence.evict(text, bigint), fence.blockers(text) from %s; revoke all on fence.marks, fence.adoptions from %[1]s", role))
		path("reset search_path")
		if diff := cmp.Diff(whole, d.snapshot(t)); diff != "" {
			t.Errorf("the schema is another: %s", diff)
		}
		path("set search_path = trap, pg_catalog")
		app := dial(t, d.url)
		defer app.Close(t.Context())
		exec(t, app, "create table public.t (n int)")
		exec(t, app, "select fence.protect('public.t', 'r')")
		for _, n := range []int64{1, 2} {
			exec(t, app, "select fence.claim($1)", resource("r").writer(n))
			exec(t, app, "select fence.check($1)", resource("r").writer(n))
		}
		exec(t, app, "set fence.token = '"+resource("r").writer(2)+"'")
		exec(t, app, "insert into public.t values (2)")
		exec(t, app, "select fence.enter('read-only'), fence.leave('read-only'), fence.evict('r', 2), fence.adopt('s', 'i')")
		exec(t, app, "select relation, protected from fence.status")
		exec(t, app, "select pid from fence.blockers('r')")
		if err := migrations.Down(t.Context(), d.url, migrations.Config{}); err != nil {
			t.Fatal(describe(err))
		}
		for v := 1; v <= migrations.Version; v++ { // by psql, as the files say
			byPsql(t, d.url, fileName(t, v, "up"))
		}
		for v := migrations.Version; v > 0; v-- {
			byPsql(t, d.url, fileName(t, v, "down"))
		}
	})
}
