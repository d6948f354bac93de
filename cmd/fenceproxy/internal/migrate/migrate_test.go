package migrate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

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

		o := clitest.Run(t, "migrate", "status", "--postgres", url).Want(t, cli.ExitSchema, "not installed", "fenceproxy migrate up")
		if !strings.Contains(o.Out, "installed  no\n") || !strings.Contains(o.Out, "0001_marks") {
			t.Errorf("status before:\n%s", o.Out)
		}
		var before stateDocument
		clitest.Decode(t, clitest.Run(t, "migrate", "status", "--json", "--postgres", url).Want(t, cli.ExitSchema).Out, &before)
		if before.Installed != 0 || before.Wanted != migrations.Version || len(before.Pending) != migrations.Version {
			t.Errorf("status before: %+v", before)
		}

		o = clitest.Run(t, "migrate", "up", "--postgres", url, "--grant", app, "--grant", jobs).Want(t, cli.ExitOK)
		if got := strings.Count(o.Out, "applied 0"); got != migrations.Version || !strings.Contains(o.Out, "s)\n") {
			t.Errorf("up does not list each migration with its time:\n%s", o.Out)
		}
		for _, role := range []string{app, jobs} {
			if !strings.Contains(o.Out, "granted to "+role) {
				t.Errorf("up does not say that it granted to %s:\n%s", role, o.Out)
			}
		}
		if strings.Contains(o.Out, "administrator") {
			t.Errorf("installed by a superuser, up asks for an administrator:\n%s", o.Out)
		}

		o = clitest.Run(t, "migrate", "up", "--postgres", url).Want(t, cli.ExitOK)
		if !strings.HasPrefix(o.Out, "nothing to do") {
			t.Errorf("second up:\n%s", o.Out)
		}
		var again stepsDocument
		clitest.Decode(t, clitest.Run(t, "migrate", "up", "--json", "--postgres", url, "--grant", app).Want(t, cli.ExitOK).Out, &again)
		if len(again.Applied) != 0 || again.Applied == nil || again.Installed != migrations.Version || len(again.Granted) != 1 || !again.Evictable {
			t.Errorf("second up as JSON: %+v", again)
		}

		var after stateDocument
		clitest.Decode(t, clitest.Run(t, "migrate", "status", "--json", "--postgres", url).Want(t, cli.ExitOK).Out, &after)
		want := stateDocument{migrations.Version, migrations.Version, nil, "fence_owner", true, "", "ok"}
		if fmt.Sprint(after) != fmt.Sprint(want) {
			t.Errorf("status after: %+v, want %+v", after, want)
		}
		o = clitest.Run(t, "migrate", "status", "--postgres", url).Want(t, cli.ExitOK)
		for _, line := range []string{"pending    none", "eviction   possible", "self test  ok"} {
			if !strings.Contains(o.Out, line+"\n") {
				t.Errorf("status after has no line %q:\n%s", line, o.Out)
			}
		}

		checkDown(t, url)
	})
}

// checkDown removes the fence, which is not to happen unasked.
func checkDown(t *testing.T, url string) {
	t.Helper()
	clitest.Run(t, "migrate", "down", "--postgres", url).Want(t, cli.ExitUsage, "give --yes")
	clitest.Run(t, "migrate", "status", "--postgres", url).Want(t, cli.ExitOK) // nothing happened
	var down struct {
		Undone []stepJSON `json:"undone"`
	}
	o := clitest.Run(t, "migrate", "down", "--yes", "--json", "--postgres", url).Want(t, cli.ExitOK)
	clitest.Decode(t, o.Out, &down)
	if len(down.Undone) != migrations.Version || !strings.Contains(o.Err, "gone for good") {
		t.Errorf("down: %+v\nstderr: %s", down, o.Err)
	}
	clitest.Run(t, "migrate", "status", "--postgres", url).Want(t, cli.ExitSchema)
	clitest.Run(t, "migrate", "down", "--yes", "--postgres", url).Want(t, cli.ExitSchema, "not installed")
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
	clitest.Execute(t, url, fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s", pgx.Identifier{config.Database}.Sanitize(), pgx.Identifier{name}.Sanitize()))
	as := testenv.URLAs(url, name, password)

	o := clitest.Run(t, "migrate", "up", "--postgres", as).Want(t, cli.ExitOK)
	grant := "GRANT pg_signal_backend, pg_read_all_stats TO " + QuoteName(name)
	if !strings.Contains(o.Out, "Eviction is not possible yet") || !strings.Contains(o.Out, "\n    "+grant+";\n") {
		t.Errorf("up does not say what the administrator must run (%s):\n%s", grant, o.Out)
	}
	var state stateDocument
	clitest.Decode(t, clitest.Run(t, "migrate", "status", "--json", "--postgres", as).Want(t, cli.ExitOK).Out, &state)
	if state.Evictable || state.EvictionNeeds != grant || state.SelfTest != "ok" || state.Owner != name {
		t.Errorf("status: %+v", state)
	}
	clitest.Execute(t, url, grant) // it is what does it
	o = clitest.Run(t, "migrate", "status", "--postgres", as).Want(t, cli.ExitOK)
	if !strings.Contains(o.Out, "eviction   possible\n") {
		t.Errorf("status after the grant:\n%s", o.Out)
	}
	o = clitest.Run(t, "migrate", "down", "--yes", "--postgres", as).Want(t, cli.ExitOK)
	if strings.Count(o.Out, "undone 0") != migrations.Version {
		t.Errorf("down:\n%s", o.Out)
	}
}

func TestWrongVersion(t *testing.T) {
	t.Parallel()
	url := clitest.Install(t, testenv.Postgres(t))
	setVersion := func(v int) {
		t.Helper()
		clitest.Execute(t, url, fmt.Sprintf("CREATE OR REPLACE FUNCTION fence.version() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN %d", v))
	}
	setVersion(migrations.Version + 1)
	clitest.Run(t, "migrate", "up", "--postgres", url).Want(t, cli.ExitSchema, "use a newer fenceproxy")
	for _, args := range []string{"marks list", "migrate status", "marks adopt orders --issuer b --yes"} {
		clitest.Run(t, append(strings.Fields(args), "--postgres", url)...).Want(t, cli.ExitOK) // files only add to those before them
	}
	setVersion(1)
	for _, args := range []string{"marks list", "marks show orders", "marks adopt orders --issuer b --yes", "migrate status"} {
		clitest.Run(t, append(strings.Fields(args), "--postgres", url)...).Want(t, cli.ExitSchema, "has version 1", "fenceproxy migrate up")
	}
}

func TestMissingSchema(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).Database(t)
	for _, args := range []string{"marks list", "marks show orders", "marks adopt orders --issuer b --yes"} {
		clitest.Run(t, append(strings.Fields(args), "--postgres", url)...).Want(t, cli.ExitSchema, "not installed", "fenceproxy migrate up")
	}
}

// What a wrong password or a role that may not leads to: 77, and no password.
func TestDenied(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	url := clitest.Install(t, s)
	name, password := s.Role(t, "LOGIN")
	for _, args := range []string{"marks list", "migrate status", "migrate up", "migrate down --yes", "marks show orders"} {
		wrong := append(strings.Fields(args), "--postgres", testenv.URLAs(url, name, "wr0ng-passw0rd"))
		o := clitest.Run(t, wrong...).Want(t, cli.ExitDenied, "refuses user", name, "check user and password")
		if strings.Contains(o.Err, "wr0ng") {
			t.Errorf("stderr has the password: %s", o.Err)
		}
	}
	as := testenv.URLAs(url, name, password)
	clitest.Run(t, "marks", "list", "--postgres", as).Want(t, cli.ExitDenied, "permission denied", "--grant")
	clitest.Run(t, "migrate", "up", "--postgres", as, "--grant", name).Want(t, cli.ExitDenied)
	clitest.Run(t, "migrate", "up", "--postgres", url, "--grant", "nobody-of-that-name").Want(t, cli.ExitFailure, "nobody-of-that-name")
	clitest.Run(t, "migrate", "up", "--postgres", url, "--grant", "public").Want(t, cli.ExitFailure, "PUBLIC")

	clitest.Run(t, "migrate", "up", "--postgres", url, "--grant", name).Want(t, cli.ExitOK)
	clitest.Run(t, "marks", "list", "--postgres", as).Want(t, cli.ExitOK)
	o := clitest.Run(t, "marks", "adopt", "orders", "--issuer", "b", "--yes", "--postgres", as)
	if o.Code != cli.ExitDenied || !strings.Contains(o.Err, "permission denied") {
		t.Errorf("adopt by an application's role: %d\n%s", o.Code, o.Err)
	}

	gone := testenv.URLAs(url, name, password)
	gone = strings.Replace(gone, "/"+clitest.DatabaseOf(t, url), "/no_such_database", 1)
	clitest.Run(t, "marks", "list", "--postgres", gone).Want(t, cli.ExitUnreachable, "no_such_database", "check the URL")
}

func TestConfirmation(t *testing.T) {
	t.Parallel()
	url := clitest.Install(t, testenv.Postgres(t))
	i := clitest.Invocation{Args: []string{"migrate", "down", "--postgres", url}, Terminal: true, In: "no\n"}
	o := i.Run(t.Context())
	if o.Code != cli.ExitFailure || !strings.Contains(o.Err, "not confirmed, nothing was changed") || !strings.Contains(o.Err, "gone for good") {
		t.Errorf("answered no: %d\n%s", o.Code, o.Err)
	}
	i.In = "" // end of input
	if o := i.Run(t.Context()); o.Code != cli.ExitFailure {
		t.Errorf("answered nothing: %d\n%s", o.Code, o.Err)
	}
	clitest.Run(t, "migrate", "status", "--postgres", url).Want(t, cli.ExitOK)
	i.In = "yes\n"
	if o := i.Run(t.Context()); o.Code != cli.ExitOK {
		t.Errorf("answered yes: %d\n%s", o.Code, o.Err)
	}
	clitest.Run(t, "migrate", "status", "--postgres", url).Want(t, cli.ExitSchema)
}
