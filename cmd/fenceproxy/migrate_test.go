package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if strings.Count(text, "\n") != 1 {
		t.Errorf("JSON output is not one line:\n%s", text)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("decode %q: %v", text, err)
	}
}

func execute(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// install installs the fence in a database of its own and returns its URL.
func install(t *testing.T, s *testenv.PostgresServer) string {
	t.Helper()
	url := s.Database(t)
	run(t, "migrate", "up", "--postgres", url).want(t, exitOK)
	return url
}

// stateDocument is the documented JSON of migrate status.
type stateDocument struct {
	Installed     int      `json:"installed"`
	Wanted        int      `json:"wanted"`
	Pending       []string `json:"pending"`
	Owner         string   `json:"owner"`
	Evictable     bool     `json:"evictable"`
	EvictionNeeds string   `json:"eviction_needs"`
	SelfTest      string   `json:"self_test"`
}

// stepsDocument is the documented JSON of migrate up.
type stepsDocument struct {
	Applied       []stepJSON `json:"applied"`
	Installed     int        `json:"installed"`
	Wanted        int        `json:"wanted"`
	Evictable     bool       `json:"evictable"`
	EvictionNeeds string     `json:"eviction_needs"`
	Granted       []string   `json:"granted"`
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		url := s.Database(t)
		app, _ := s.Role(t, "LOGIN")
		jobs, _ := s.Role(t, "LOGIN")

		o := run(t, "migrate", "status", "--postgres", url).want(t, exitSchema, "not installed", "fenceproxy migrate up")
		if !strings.Contains(o.out, "installed  no\n") || !strings.Contains(o.out, "0001_marks") {
			t.Errorf("status before:\n%s", o.out)
		}
		var before stateDocument
		decode(t, run(t, "migrate", "status", "--json", "--postgres", url).want(t, exitSchema).out, &before)
		if before.Installed != 0 || before.Wanted != migrations.Version || len(before.Pending) != migrations.Version {
			t.Errorf("status before: %+v", before)
		}

		o = run(t, "migrate", "up", "--postgres", url, "--grant", app, "--grant", jobs).want(t, exitOK)
		if got := strings.Count(o.out, "applied 0"); got != migrations.Version || !strings.Contains(o.out, "s)\n") {
			t.Errorf("up does not list each migration with its time:\n%s", o.out)
		}
		for _, role := range []string{app, jobs} {
			if !strings.Contains(o.out, "granted to "+role) {
				t.Errorf("up does not say that it granted to %s:\n%s", role, o.out)
			}
		}
		if strings.Contains(o.out, "administrator") {
			t.Errorf("installed by a superuser, up asks for an administrator:\n%s", o.out)
		}

		o = run(t, "migrate", "up", "--postgres", url).want(t, exitOK)
		if !strings.HasPrefix(o.out, "nothing to do") {
			t.Errorf("second up:\n%s", o.out)
		}
		var again stepsDocument
		decode(t, run(t, "migrate", "up", "--json", "--postgres", url, "--grant", app).want(t, exitOK).out, &again)
		if len(again.Applied) != 0 || again.Applied == nil || again.Installed != migrations.Version || len(again.Granted) != 1 || !again.Evictable {
			t.Errorf("second up as JSON: %+v", again)
		}

		var after stateDocument
		decode(t, run(t, "migrate", "status", "--json", "--postgres", url).want(t, exitOK).out, &after)
		want := stateDocument{migrations.Version, migrations.Version, nil, "fence_owner", true, "", "ok"}
		if fmt.Sprint(after) != fmt.Sprint(want) {
			t.Errorf("status after: %+v, want %+v", after, want)
		}
		o = run(t, "migrate", "status", "--postgres", url).want(t, exitOK)
		for _, line := range []string{"pending    none", "eviction   possible", "self test  ok"} {
			if !strings.Contains(o.out, line+"\n") {
				t.Errorf("status after has no line %q:\n%s", line, o.out)
			}
		}

		checkDown(t, url)
	})
}

// checkDown removes the fence, which is not to happen unasked.
func checkDown(t *testing.T, url string) {
	t.Helper()
	run(t, "migrate", "down", "--postgres", url).want(t, exitUsage, "give --yes")
	run(t, "migrate", "status", "--postgres", url).want(t, exitOK) // nothing happened
	var down struct {
		Undone []stepJSON `json:"undone"`
	}
	o := run(t, "migrate", "down", "--yes", "--json", "--postgres", url).want(t, exitOK)
	decode(t, o.out, &down)
	if len(down.Undone) != migrations.Version || !strings.Contains(o.err, "gone for good") {
		t.Errorf("down: %+v\nstderr: %s", down, o.err)
	}
	run(t, "migrate", "status", "--postgres", url).want(t, exitSchema)
	run(t, "migrate", "down", "--yes", "--postgres", url).want(t, exitSchema, "not installed")
}

// Somebody who is not a superuser can install everything, and is told what
// eviction, the rest, needs.
func TestMigrateWithoutSuperuser(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	url := s.Database(t)
	name, password := s.Role(t, "LOGIN")
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, url, fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s", pgx.Identifier{config.Database}.Sanitize(), pgx.Identifier{name}.Sanitize()))
	as := testenv.URLAs(url, name, password)

	o := run(t, "migrate", "up", "--postgres", as).want(t, exitOK)
	grant := "GRANT pg_signal_backend, pg_read_all_stats TO " + quoteName(name)
	if !strings.Contains(o.out, "Eviction is not possible yet") || !strings.Contains(o.out, "\n    "+grant+";\n") {
		t.Errorf("up does not say what the administrator must run (%s):\n%s", grant, o.out)
	}
	var state stateDocument
	decode(t, run(t, "migrate", "status", "--json", "--postgres", as).want(t, exitOK).out, &state)
	if state.Evictable || state.EvictionNeeds != grant || state.SelfTest != "ok" || state.Owner != name {
		t.Errorf("status: %+v", state)
	}
	execute(t, url, grant) // it is what does it
	o = run(t, "migrate", "status", "--postgres", as).want(t, exitOK)
	if !strings.Contains(o.out, "eviction   possible\n") {
		t.Errorf("status after the grant:\n%s", o.out)
	}
	o = run(t, "migrate", "down", "--yes", "--postgres", as).want(t, exitOK)
	if strings.Count(o.out, "undone 0") != migrations.Version {
		t.Errorf("down:\n%s", o.out)
	}
}

func TestWrongVersion(t *testing.T) {
	t.Parallel()
	url := install(t, testenv.Postgres(t))
	setVersion := func(v int) {
		t.Helper()
		execute(t, url, fmt.Sprintf("CREATE OR REPLACE FUNCTION fence.version() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN %d", v))
	}
	setVersion(migrations.Version + 1)
	run(t, "migrate", "up", "--postgres", url).want(t, exitSchema, "use a newer fenceproxy")
	for _, args := range []string{"marks list", "migrate status", "marks adopt orders --issuer b --yes"} {
		run(t, append(strings.Fields(args), "--postgres", url)...).want(t, exitOK) // files only add to those before them
	}
	setVersion(1)
	for _, args := range []string{"marks list", "marks show orders", "marks adopt orders --issuer b --yes", "migrate status"} {
		run(t, append(strings.Fields(args), "--postgres", url)...).want(t, exitSchema, "has version 1", "fenceproxy migrate up")
	}
}

func TestMissingSchema(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).Database(t)
	for _, args := range []string{"marks list", "marks show orders", "marks adopt orders --issuer b --yes"} {
		run(t, append(strings.Fields(args), "--postgres", url)...).want(t, exitSchema, "not installed", "fenceproxy migrate up")
	}
}

// What a wrong password or a role that may not leads to: 77, and no password.
func TestDenied(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	url := install(t, s)
	name, password := s.Role(t, "LOGIN")
	for _, args := range []string{"marks list", "migrate status", "migrate up", "migrate down --yes", "marks show orders"} {
		wrong := append(strings.Fields(args), "--postgres", testenv.URLAs(url, name, "wr0ng-passw0rd"))
		o := run(t, wrong...).want(t, exitDenied, "refuses user", name, "check user and password")
		if strings.Contains(o.err, "wr0ng") {
			t.Errorf("stderr has the password: %s", o.err)
		}
	}
	as := testenv.URLAs(url, name, password)
	run(t, "marks", "list", "--postgres", as).want(t, exitDenied, "permission denied", "--grant")
	run(t, "migrate", "up", "--postgres", as, "--grant", name).want(t, exitDenied)
	run(t, "migrate", "up", "--postgres", url, "--grant", "nobody-of-that-name").want(t, exitFailure, "nobody-of-that-name")
	run(t, "migrate", "up", "--postgres", url, "--grant", "public").want(t, exitFailure, "PUBLIC")

	run(t, "migrate", "up", "--postgres", url, "--grant", name).want(t, exitOK)
	run(t, "marks", "list", "--postgres", as).want(t, exitOK)
	o := run(t, "marks", "adopt", "orders", "--issuer", "b", "--yes", "--postgres", as)
	if o.code != exitDenied || !strings.Contains(o.err, "permission denied") {
		t.Errorf("adopt by an application's role: %d\n%s", o.code, o.err)
	}

	gone := testenv.URLAs(url, name, password)
	gone = strings.Replace(gone, "/"+databaseOf(t, url), "/no_such_database", 1)
	run(t, "marks", "list", "--postgres", gone).want(t, exitUnreachable, "no_such_database", "check the URL")
}

func databaseOf(t *testing.T, url string) string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return config.Database
}

func TestConfirmation(t *testing.T) {
	t.Parallel()
	url := install(t, testenv.Postgres(t))
	i := invocation{args: []string{"migrate", "down", "--postgres", url}, terminal: true, in: "no\n"}
	o := i.run(t.Context())
	if o.code != exitFailure || !strings.Contains(o.err, "not confirmed, nothing was changed") || !strings.Contains(o.err, "gone for good") {
		t.Errorf("answered no: %d\n%s", o.code, o.err)
	}
	i.in = "" // end of input
	if o := i.run(t.Context()); o.code != exitFailure {
		t.Errorf("answered nothing: %d\n%s", o.code, o.err)
	}
	run(t, "migrate", "status", "--postgres", url).want(t, exitOK)
	i.in = "yes\n"
	if o := i.run(t.Context()); o.code != exitOK {
		t.Errorf("answered yes: %d\n%s", o.code, o.err)
	}
	run(t, "migrate", "status", "--postgres", url).want(t, exitSchema)
}
