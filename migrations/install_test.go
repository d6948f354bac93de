package migrations_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

// installer is a way to come to the schema. %s is the role that installs.
type installer struct {
	name      string
	attrs     string // of the role that installs
	before    string // what a superuser does before
	owner     string // "fence_owner", or "" for the role itself
	evictable func(major int) bool
	warns     string // part of a notice of the first migration
	since     int    // major version, if not all
}

var (
	yes = func(int) bool { return true }
	no  = func(int) bool { return false }
	// Until PostgreSQL 16, CREATEROLE could grant every role but a superuser's.
	before16 = func(major int) bool { return major < 16 }
)

var installers = []installer{
	{name: "superuser", attrs: "SUPERUSER", owner: "fence_owner", evictable: yes},
	{name: "superuser, role there", attrs: "SUPERUSER", before: "create role fence_owner nologin", owner: "fence_owner", evictable: yes},
	{name: "createrole", attrs: "CREATEROLE", owner: "fence_owner", evictable: before16},
	{
		name: "createrole, not inheriting", attrs: "CREATEROLE NOINHERIT", owner: "fence_owner", evictable: before16,
	},
	{
		name: "createrole with inherited but not settable memberships", attrs: "CREATEROLE", since: 16,
		before: "alter role %s set createrole_self_grant = 'inherit'", owner: "fence_owner", evictable: no,
	},
	{name: "role there and granted", before: "create role fence_owner nologin; grant fence_owner to %s", owner: "fence_owner", evictable: no},
	{
		name: "role there and granted, not inheriting", attrs: "NOINHERIT",
		before: "create role fence_owner nologin; grant fence_owner to %s", owner: "fence_owner", evictable: no,
	},
	{
		name:   "role there, granted and able to evict",
		before: "create role fence_owner nologin; grant pg_signal_backend, pg_read_all_stats to fence_owner; grant fence_owner to %s",
		owner:  "fence_owner", evictable: yes,
	},
	{name: "role there, not granted", before: "create role fence_owner nologin", evictable: no, warns: "GRANT fence_owner TO"},
	{
		name: "role there, granted but not to be set", since: 16,
		before: "create role fence_owner nologin; grant fence_owner to %s with set false", evictable: no, warns: "GRANT fence_owner TO",
	},
	{name: "nothing at all", evictable: no, warns: "CREATE ROLE fence_owner NOLOGIN"},
	{name: "schema there, made by itself", before: "create schema fence authorization %s", evictable: no, warns: "CREATE ROLE fence_owner NOLOGIN"},
}

// Who is not a superuser can install it too, in one way or another. What needs
// a grant says so, and works without it but for eviction.
func TestInstall(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		private := testenv.StartPostgres(t, testenv.PostgresConfig{Major: s.Major()})
		for _, in := range installers {
			if in.since > s.Major() {
				continue
			}
			t.Run(in.name, func(t *testing.T) { // one after the other: they share the role fence_owner
				in.run(t, &database{url: private.Database(t), server: private})
			})
		}
	})
}

func (in installer) run(t *testing.T, d *database) {
	admin := d.open(t)
	role, url := d.login(t, in.attrs)
	exec(t, admin, fmt.Sprintf("do $$ begin execute format('grant create on database %%I to %s', current_database()); end $$", role))
	exec(t, admin, fmt.Sprintf(in.before+" -- %[1]s", role))
	owner := in.owner
	if owner == "" {
		owner = role
	}
	var said []string
	c := migrations.Config{Progress: func(step migrations.Step) { said = append(said, step.Notices...) }}
	for range 2 {
		if err := migrations.Up(t.Context(), url, c); err != nil {
			t.Fatal(describe(err))
		}
	}
	for v := 1; v <= migrations.Version; v++ { // again, though the runner would not
		exec(t, connect(t, url), upFile(t, v))
	}
	if got := strings.Join(said, "\n"); !strings.Contains(got, in.warns) || in.warns == "" && strings.Contains(got, "may not use") {
		t.Errorf("said %q, want something about %q", got, in.warns)
	}
	if told := strings.Contains(strings.Join(said, "\n"), "eviction is not possible"); told == in.evictable(d.server.Major()) {
		t.Errorf("told that eviction is not possible: %t", told)
	}
	in.check(t, d, admin, url, owner)
	if err := migrations.Down(t.Context(), url, migrations.Config{}); err != nil {
		t.Errorf("down: %v", describe(err))
	}
	if query[bool](t, admin, "select to_regnamespace('fence') is not null") {
		t.Error("the schema is still there")
	}
	exec(t, admin, "drop owned by "+role)
	exec(t, admin, "drop role if exists fence_owner")
}

// check uses what was installed.
func (in installer) check(t *testing.T, d *database, admin *pgx.Conn, url, owner string) {
	t.Helper()
	state, err := migrations.Status(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if state.Installed != migrations.Version || state.Owner != owner || state.Evictable != in.evictable(d.server.Major()) || state.SelfTest != "ok" || len(state.Pending) > 0 {
		t.Errorf("status is %+v, want owner %s, evictable %t", state, owner, in.evictable(d.server.Major()))
	}
	strangers := list(t, admin, `select c.oid::regclass::text from pg_class c where relnamespace = 'fence'::regnamespace and pg_get_userbyid(relowner) <> $1
		and relname not like 'migrations%' union all
		select p.oid::regprocedure::text from pg_proc p where pronamespace = 'fence'::regnamespace and pg_get_userbyid(proowner) <> $1 union all
		select t.oid::regtype::text from pg_type t where typnamespace = 'fence'::regnamespace and typtype = 'd' and pg_get_userbyid(typowner) <> $1`, owner)
	if len(strangers) > 0 {
		t.Errorf("not owned by %s: %q", owner, strangers)
	}
	worker, workerURL := d.login(t, "")
	if err := migrations.Up(t.Context(), url, migrations.Config{Grant: []string{worker}}); err != nil {
		t.Fatal(describe(err))
	}
	exec(t, admin, "create table t (n int); grant all on t to public; select fence.protect('t', 'r')")
	old, next := connect(t, workerURL), connect(t, workerURL)
	claim(t, old, resource("r").writer(33))
	exec(t, old, "select set_config('fence.token', $1, false)", resource("r").writer(33))
	exec(t, old, "begin; insert into t values (33)")
	_, err = next.Exec(t.Context(), "select fence.claim($1, '20ms', true)", resource("r").writer(34))
	if in.evictable(d.server.Major()) {
		if err != nil {
			t.Error(describe(err))
		}
	} else {
		if blocked := mustBe(t, err, "55P03", "a claim that cannot evict"); !names(blocked.Detail, old) {
			t.Errorf("detail does not name the session: %q", blocked.Detail)
		}
		exec(t, old, "rollback")
		claim(t, next, resource("r").writer(34))
		fails(t, old, "TK001", "insert into t values (33)")
	}
}
