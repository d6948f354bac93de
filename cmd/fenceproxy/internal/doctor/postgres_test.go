package doctor

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

// levels runs a doctor with --json and returns the level of each check.
func levels(t *testing.T, code int, args ...string) (map[string]level, *findings) {
	t.Helper()
	o := clitest.Run(t, append(args, "--json")...).Want(t, code)
	var f findings
	clitest.Decode(t, o.Out, &f)
	all := map[string]level{}
	for _, one := range f.Findings {
		all[one.name()] = one.Level
	}
	return all, &f
}

func (f *findings) found(check string) string {
	for _, one := range f.Findings {
		if one.name() == check {
			return one.Found
		}
	}
	return ""
}

func wantLevels(t *testing.T, f *findings, got, want map[string]level) {
	t.Helper()
	for check, l := range want {
		if got[check] != l {
			t.Errorf("%s is %q (%s), want %q", check, got[check], f.found(check), l)
		}
	}
}

func TestDoctorPostgres(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		url := s.Database(t)
		got, f := levels(t, cli.ExitSchema, "doctor", "postgres", "--postgres", url)
		wantLevels(t, f, got, map[string]level{"server": levelOK, "schema": levelWrong, "in between": levelOK, "PGOPTIONS": levelOK, "user": levelNote})
		if !strings.HasPrefix(f.Target, s.Addr()+"/") {
			t.Errorf("target %q of %q", f.Target, url)
		}

		name, password := s.Role(t, "LOGIN")
		if err := migrations.Up(t.Context(), url, migrations.Config{}); err != nil {
			t.Fatal(err)
		}
		app := testenv.URLAs(url, name, password)
		got, f = levels(t, cli.ExitOK, "doctor", "postgres", "--postgres", app)
		wantLevels(t, f, got, map[string]level{"schema": levelOK, "self test": levelOK, "owner": levelOK, "claims": levelNote, "isolation": levelOK, "tables": levelOK})
		if !strings.Contains(f.found("claims"), name+" may check, and not claim") {
			t.Errorf("claims: %q", f.found("claims"))
		}

		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		for _, sql := range []string{
			"CREATE TABLE orders (id int) PARTITION BY LIST (id)",
			"CREATE TABLE orders_1 PARTITION OF orders FOR VALUES IN (1)",
			"SELECT fence.protect('orders', 'orders')",
			"ALTER TABLE orders_1 DISABLE TRIGGER ALL",
			"GRANT EXECUTE ON FUNCTION fence.claim(text, interval, boolean) TO PUBLIC",
			"ALTER ROLE " + name + " SET default_transaction_isolation = 'repeatable read'",
			"ALTER ROLE " + name + " SET default_transaction_read_only = on",
		} {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
		got, f = levels(t, cli.ExitOK, "doctor", "postgres", "--postgres", app)
		wantLevels(t, f, got, map[string]level{"claims": levelWarning, "isolation": levelNote, "read only": levelNote, "tables": levelWarning})
		if !strings.Contains(f.found("tables"), "orders_1") {
			t.Errorf("tables: %q", f.found("tables"))
		}
		o := clitest.Run(t, "doctor", "postgres", "--postgres", app).Want(t, cli.ExitOK)
		if !strings.HasPrefix(o.Out, "CHECK") || !strings.Contains(o.Out, "-> REVOKE EXECUTE") || strings.Contains(o.Out, password) {
			t.Errorf("stdout:\n%s", o.Out)
		}
	})
}

// An older schema works with this program, or does not, and it says which.
func TestDoctorPostgresOldSchema(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).Database(t)
	if err := migrations.Up(t.Context(), url, migrations.Config{}); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for version, want := range map[string]struct {
		code  int
		level level
	}{"3": {cli.ExitSchema, levelWrong}, "4": {cli.ExitOK, levelWarning}, "99": {cli.ExitOK, levelOK}} {
		if _, err := conn.Exec(t.Context(), "CREATE OR REPLACE FUNCTION fence.version() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN "+version); err != nil {
			t.Fatal(err)
		}
		got, f := levels(t, want.code, "doctor", "postgres", "--postgres", url)
		wantLevels(t, f, got, map[string]level{"schema": want.level})
	}
}

func TestDoctorPostgresThroughAPooler(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).Database(t)
	if err := migrations.Up(t.Context(), url, migrations.Config{}); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[string]level{"session": levelNote, "transaction": levelWarning} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			got, f := levels(t, cli.ExitOK, "doctor", "postgres", "--postgres", testenv.PgBouncer(t, url, mode))
			wantLevels(t, f, got, map[string]level{"in between": want, "PGOPTIONS": levelWarning, "schema": levelOK})
		})
	}
}

// What only passes bytes on has no keys of its own.
func TestDoctorPostgresThroughALink(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	link := testenv.NewLink(t, s.Addr(), testenv.LinkConfig{})
	_, f := levels(t, cli.ExitSchema, "doctor", "postgres", "--postgres", testenv.URLVia(s.Database(t), link.Addr()))
	if !strings.HasPrefix(f.found("in between"), "no pooler; something passes port") {
		t.Errorf("in between: %q", f.found("in between"))
	}
}

func TestDoctorPostgresUnreachable(t *testing.T) {
	t.Parallel()
	o := clitest.Run(t, "doctor", "postgres", "--postgres", clitest.Nowhere).Want(t, cli.ExitUnreachable, "cannot reach Postgres at 127.0.0.1:1")
	if strings.Contains(o.Err, "s3cret") {
		t.Errorf("stderr has the password: %s", o.Err)
	}
	clitest.Run(t, "doctor", "postgres").Want(t, cli.ExitUsage, "no database: give --postgres URL, or set DATABASE_URL")
	clitest.Run(t, "doctor").Want(t, cli.ExitUsage, "choose one of")
}

// Who looks at a database runs nothing that others have put into his
// search_path.
func TestDoctorPostgresTrustsNoPath(t *testing.T) {
	t.Parallel()
	url := clitest.Install(t, testenv.Postgres(t))
	clitest.LayTraps(t, url)
	got, f := levels(t, cli.ExitOK, "doctor", "postgres", "--postgres", url)
	wantLevels(t, f, got, map[string]level{"schema": levelOK, "self test": levelOK, "owner": levelOK, "tables": levelOK, "in between": levelOK})
}
