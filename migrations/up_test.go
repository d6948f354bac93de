package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

// fileName returns the name of one migration.
func fileName(t *testing.T, version int, way string) string {
	t.Helper()
	entries, err := migrations.Files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), fmt.Sprintf("%04d_", version)) && strings.HasSuffix(e.Name(), "."+way+".sql") {
			return e.Name()
		}
	}
	t.Fatalf("no migration %d %s", version, way)
	return ""
}

func upFile(t *testing.T, version int) string {
	t.Helper()
	text, err := migrations.Files.ReadFile(fileName(t, version, "up"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// byPsql runs migrations the way the files say, in one transaction.
func byPsql(t *testing.T, url string, names ...string) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"--single-transaction", "--set", "ON_ERROR_STOP=1"}
	for _, name := range names {
		text, err := migrations.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--file", path)
	}
	if out, err := psql(t, url, "", "", args...); err != nil {
		t.Fatalf("psql of %q: %v\n%s", names, err, out)
	}
}

func bare(t *testing.T, f func(t *testing.T, d *database)) {
	t.Helper()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		f(t, &database{url: s.Database(t), server: s})
	})
}

// snapshot describes all that the migrations made.
func (d *database) snapshot(t *testing.T) []string {
	t.Helper()
	conn := d.open(t)
	defer conn.Close(context.Background())
	return list(t, conn, `
		select format('%s %s %s %s', p.oid::regprocedure, proowner::regrole, array(select unnest(coalesce(proacl, acldefault('f', proowner)))::text order by 1), md5(pg_get_functiondef(p.oid)))
		  from pg_proc p where pronamespace = 'fence'::regnamespace
		union all select format('%s %s %s %s', relname, relkind, relowner::regrole, array(select unnest(relacl)::text order by 1))
		  from pg_class where relnamespace = 'fence'::regnamespace and relname not like 'migrations%' and relname not like 's\_%'
		union all select pg_get_triggerdef(oid) || tgenabled::text from pg_trigger where tgrelid::regclass::text like 'fence.%'
		union all select format('%s %s %s %s', t.oid::regtype, typowner::regrole, typacl, pg_get_constraintdef(c.oid))
		  from pg_type t left join pg_constraint c on c.contypid = t.oid where typnamespace = 'fence'::regnamespace and typtype = 'd'
		union all select format('%s %s', nspowner::regrole, nspacl) from pg_namespace where nspname = 'fence'
		order by 1`)
}

// Every file may run again, by psql or by the runner, in any mixture, over a
// schema that is in use: marks, tickets and grants stay as they are.
func TestFilesRunAgain(t *testing.T) {
	t.Parallel()
	bare(t, func(t *testing.T, d *database) {
		var all []string
		for v := 1; v <= migrations.Version; v++ {
			byPsql(t, d.url, fileName(t, v, "up"))
			byPsql(t, d.url, fileName(t, v, "up"))
			all = append(all, fileName(t, v, "up"))
		}
		if state, err := migrations.Status(t.Context(), d.url); err != nil || state.Installed != migrations.Version || state.SelfTest != "ok" {
			t.Errorf("status after psql is %+v, %v", state, err)
		}
		first := d.snapshot(t)
		s := d.stage(t)
		s.protected(t)
		role, _ := d.login(t, "")
		again := map[string]func(){
			"psql, all in one": func() { byPsql(t, d.url, all...) },
			"psql, first only": func() { byPsql(t, d.url, all[0]) },
			"the runner": func() {
				if err := migrations.Up(t.Context(), d.url, migrations.Config{Grant: []string{role}}); err != nil {
					t.Fatal(err)
				}
			},
		}
		for _, name := range []string{"psql, all in one", "psql, first only", "the runner", "the runner", "psql, all in one"} {
			again[name]()
			if got := query[int](t, s.next, "select fence.version()"); got != migrations.Version {
				t.Errorf("%s: version is %d", name, got)
			}
			for _, f := range forms {
				s.begin(t, s.old, "read committed")
				if err := f.check(t.Context(), s.old, s.r.writer(33), s.ticket); err != nil {
					t.Errorf("%s: the current holder is refused (I3): %v", name, describe(err))
				}
				exec(t, s.old, "commit")
			}
			fails(t, s.old, "TK005", "insert into "+s.table+" values (1)")
			fails(t, s.old, "TK001", "select fence.check($1)", s.r.writer(32))
		}
		if !query[bool](t, s.next, "select has_function_privilege($1, 'fence.claim(text, interval, boolean)', 'execute')", role) {
			t.Error("the grant is gone")
		}
		exec(t, s.next, fmt.Sprintf("revoke all on function fence.claim(text, interval, boolean), fence.evict(text, bigint), fence.blockers(text) from %s; revoke all on fence.marks, fence.adoptions from %[1]s; drop table %s", role, s.table))
		if diff := cmp.Diff(first, d.snapshot(t)); diff != "" {
			t.Errorf("the schema changed: %s", diff)
		}
	})
}

// Each way up ends at the same schema.
func TestUpgradePath(t *testing.T) {
	t.Parallel()
	bare(t, func(t *testing.T, d *database) {
		whole := install(t, d.server).snapshot(t)
		for from := 0; from <= migrations.Version; from++ {
			path := &database{url: d.server.Database(t), server: d.server}
			for v := 1; v <= from; v++ {
				byPsql(t, path.url, fileName(t, v, "up"))
			}
			state, err := migrations.Status(t.Context(), path.url)
			if err != nil || state.Installed != from || len(state.Pending) != migrations.Version-from {
				t.Errorf("status at %d is %+v, %v", from, state, err)
			}
			var steps []int
			if err := migrations.Up(t.Context(), path.url, migrations.Config{Progress: func(s migrations.Step) { steps = append(steps, s.Version) }}); err != nil {
				t.Fatal(describe(err))
			}
			if !slices.Equal(steps, []int{1, 2, 3, 4, 5}) {
				t.Errorf("from %d: ran %v", from, steps)
			}
			if diff := cmp.Diff(whole, path.snapshot(t)); diff != "" {
				t.Errorf("from %d: the schema differs: %s", from, diff)
			}
		}
	})
}

// Many instances of a program migrate at their start, and grant.
func TestUpAtOnce(t *testing.T) {
	t.Parallel()
	bare(t, func(t *testing.T, d *database) {
		role, _ := d.login(t, "")
		var group errgroup.Group
		for range 4 {
			other := d.server.Database(t) // another database of the cluster, where the role is the same
			for _, url := range []string{d.url, other} {
				group.Go(func() error {
					return migrations.Up(t.Context(), url, migrations.Config{Grant: []string{role, role, role}})
				})
			}
		}
		if err := group.Wait(); err != nil {
			t.Fatal(describe(err))
		}
	})
}

// A bug that was here: of two that granted at the same time, one got "tuple
// concurrently updated".
func TestGrantAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		role, _ := d.login(t, "")
		other := d.open(t)
		exec(t, other, "begin; select pg_advisory_xact_lock(hashtextextended('fence.grant', 7203410)); grant select on fence.marks to "+role)
		up := &call{done: make(chan error, 1)}
		go func() { up.done <- migrations.Up(t.Context(), d.url, migrations.Config{Grant: []string{role}}) }()
		d.until(t, fmt.Sprintf("select exists (select from pg_stat_activity where %d = any (pg_blocking_pids(pid)))", other.PgConn().PID()))
		exec(t, other, "commit")
		if err := up.end(t); err != nil {
			t.Error(describe(err))
		}
	})
}

// The same in a cluster that has never seen the role: another database makes
// it, and grants it what it needs, at the very same time.
func TestUpAtOnceInNewCluster(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		d := &database{server: testenv.StartPostgres(t, testenv.PostgresConfig{Major: s.Major()})}
		d.url = d.server.Database(t)
		t.Cleanup(d.close)
		for _, sql := range []string{"create role fence_owner nologin", "grant pg_signal_backend, pg_read_all_stats to fence_owner"} {
			other := d.open(t)
			exec(t, other, "begin; "+sql)
			up := &call{done: make(chan error, 1)}
			url := d.server.Database(t)
			go func() { up.done <- migrations.Up(t.Context(), url, migrations.Config{}) }()
			d.until(t, fmt.Sprintf("select exists (select from pg_stat_activity where %d = any (pg_blocking_pids(pid)))", other.PgConn().PID()))
			exec(t, other, "commit")
			if err := up.end(t); err != nil {
				t.Errorf("%s: %v", sql, describe(err))
			}
			exec(t, other, "revoke pg_signal_backend, pg_read_all_stats from fence_owner")
		}
	})
}

func TestUpRefusesWhatIsNewer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		exec(t, d.open(t), fmt.Sprintf("create or replace function fence.version() returns int language sql immutable parallel safe return %d", migrations.Version+1))
		err := migrations.Up(t.Context(), d.url, migrations.Config{})
		if err == nil || !strings.Contains(err.Error(), "newer") {
			t.Errorf("up: %v", err)
		}
		if state, err := migrations.Status(t.Context(), d.url); err != nil || state.Installed != migrations.Version+1 {
			t.Errorf("status is %+v, %v", state, err)
		}
	})
}

// Errors say what to do, and never carry the password.
func TestUpErrors(t *testing.T) {
	t.Parallel()
	bare(t, func(t *testing.T, d *database) {
		_, plain := d.login(t, "")
		admin := d.open(t)
		ascii := query[string](t, admin, "select current_database() || '_ascii'")
		exec(t, admin, "create database "+ascii+" template template0 encoding 'SQL_ASCII'")
		defer exec(t, admin, "drop database "+ascii+" with (force)")
		for name, c := range map[string]struct{ url, want string }{
			"a role that may create nothing": {plain, "permission denied for database"},
			"no such database":               {at(t, d.url, "nowhere"), "does not exist"},
			"another encoding":               {at(t, d.url, ascii), "UTF8"},
			"nobody there":                   {"postgres://u:hush@127.0.0.1:1/db", "connect"},
			"not a URL":                      {"postgres://u:hush@:::/db", "parse"},
		} {
			err := migrations.Up(t.Context(), c.url, migrations.Config{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want something about %q", name, err, c.want)
			}
			u, parseErr := url.Parse(c.url)
			if parseErr != nil {
				u = &url.URL{User: url.UserPassword("u", "hush")}
			}
			if password, _ := u.User.Password(); err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("%s: the password shows: %v", name, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := migrations.Up(ctx, d.url, migrations.Config{}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// at is the URL of another database of the same server.
func at(t *testing.T, databaseURL, database string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + database
	return u.String()
}
