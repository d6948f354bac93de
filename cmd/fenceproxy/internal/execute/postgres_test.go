package execute

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

// protected is a database with a table that the lock of orders guards.
func protected(t *testing.T) string {
	t.Helper()
	url := clitest.Install(t, testenv.Postgres(t))
	clitest.Execute(t, url,
		"CREATE TABLE entries (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text)",
		"SELECT fence.protect('entries', 'orders')")
	return url
}

// client finds a client program of Postgres.
func client(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		t.Fatalf("%s is missing: make servers", name)
	}
	return found[len(found)-1]
}

// psql is a command line; statements are run one by one.
func psql(t *testing.T, url string, statements ...string) []string {
	t.Helper()
	args := []string{client(t, "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-d", url}
	for _, s := range statements {
		args = append(args, "-c", s)
	}
	return args
}

func notes(t *testing.T, url string) string {
	t.Helper()
	var text string
	query(t, url, "SELECT coalesce(string_agg(note, ' ' ORDER BY id), '') FROM entries", &text)
	return text
}

func query(t *testing.T, url, sql string, into any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if err := conn.QueryRow(t.Context(), sql).Scan(into); err != nil {
		t.Fatal(err)
	}
}

const insert = "INSERT INTO entries (note) VALUES ('%s')"

func testExecPsql(t *testing.T, x *theatre) {
	url := protected(t)
	x.exec(append([]string{"--claim", url, "--"}, psql(t, url, fmt.Sprintf(insert, "one"), "SELECT count(*) FROM entries")...)...).ends(0)
	if got := notes(t, url); got != "one" {
		t.Errorf("entries: %q", got)
	}
	// As on any protected table: not without a claim, not with a shared token.
	a := x.exec(append([]string{"--"}, psql(t, url, fmt.Sprintf(insert, "two"))...)...)
	a.ends(1)
	if !strings.Contains(a.stderr.String(), "TK004") {
		t.Errorf("unclaimed: %s", a.stderr.String())
	}
	a = x.exec(append([]string{"--shared", "--claim", url, "--"}, psql(t, url, fmt.Sprintf(insert, "three"))...)...)
	a.ends(1)
	if !strings.Contains(a.stderr.String(), "TK008") {
		t.Errorf("shared: %s", a.stderr.String())
	}
	if got := notes(t, url); got != "one" {
		t.Errorf("entries: %q", got)
	}
}

// What libpq makes of PGOPTIONS, with names that have to be encoded and with
// options of the caller's own.
func testExecPsqlOptions(t *testing.T, x *theatre) {
	show := psql(t, testenv.Postgres(t).Database(t), "SELECT current_setting('fence.token')", "SELECT current_setting('my.own', true)", "SHOW work_mem")
	for _, c := range []struct{ resource, options, own, memory string }{
		{`with space`, "", "", "4MB"},
		{`back\slash\`, `-c my.own=plain`, "plain", "4MB"},
		{`already%20en%5Ccoded%`, `-c my.own=a\ b\\c -c work_mem=1234kB`, `a b\c`, "1234kB"},
		{`"quotes" 'and' $HOME; -c my.own=not`, `  --my.own=two\ \ spaces  `, "two  spaces", "4MB"},
		{`grüße/{1}=*,:`, `-c my.own= -c fence.token=ft1:x:1:h::old --work-mem=2MB`, "", "2MB"},
		{`end`, `-c my.own=open\`, "open", "4MB"}, // a backslash with nothing behind it
	} {
		a := x.prepare(append([]string{"--lock", x.lock(""), "--resource", c.resource, "--", "sh", "-c", `echo "$FENCE_TOKEN"; exec "$@"`, "sh"}, show...)...)
		a.cmd.Env = append(a.cmd.Env, "PGOPTIONS="+c.options)
		clitest.Must(t, a.cmd.Start())
		a.watch()
		token := a.line()
		if parsed, err := guard.Parse(token); err != nil || parsed.Resource != c.resource {
			t.Errorf("FENCE_TOKEN %q: %v, want the resource %q", token, err, c.resource)
		}
		for _, want := range []string{token, c.own, c.memory} {
			if got := a.line(); got != want {
				t.Errorf("resource %q, PGOPTIONS %q: psql has %q, want %q", c.resource, c.options, got, want)
			}
		}
		a.ends(0)
	}
}

// The command goes on while all that could end it stands still, past the lease:
// then the table refuses it.
func testExecStalePsql(t *testing.T, x *theatre) {
	url := protected(t)
	script := `echo $$; psql() { ` + shellWords(psql(t, url)) + ` "$@" 2>&1; }
		psql -c "INSERT INTO entries (note) VALUES ('old')"; echo wrote
		read -r go; psql -c "INSERT INTO entries (note) VALUES ('stale')"; sleep 1000`
	old := x.exec("--ttl", shortTTL, "--claim", url, "--", "sh", "-c", script).up()
	old.says("wrote")
	for _, pid := range []int{old.cmd.Process.Pid, parent(t, old.pid)} {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	warden := parent(t, old.pid)
	x.exec(append([]string{"--claim", url, "--"}, psql(t, url, fmt.Sprintf(insert, "new"))...)...).ends(0)
	if _, err := old.in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	if line := old.line(); !strings.Contains(line, "TK001") {
		t.Errorf("the stale psql says %q", line)
	}
	for _, pid := range []int{warden, old.cmd.Process.Pid} {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	old.ends(cli.ExitLost, "is lost")
	if got := notes(t, url); got != "old new" {
		t.Errorf("entries: %q", got)
	}
}

func shellWords(args []string) string {
	var b strings.Builder
	for _, arg := range args {
		b.WriteString("'" + strings.ReplaceAll(arg, "'", `'\''`) + "' ")
	}
	return b.String()
}

func testExecPgbench(t *testing.T, x *theatre) {
	url := protected(t)
	script := filepath.Join(t.TempDir(), "load.sql")
	if err := os.WriteFile(script, []byte("INSERT INTO entries (note) VALUES ('n');\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := x.exec("--claim", url, "--", client(t, "pgbench"), "-n", "-c", "3", "-t", "20", "-f", script, url)
	a.ends(0)
	var count int
	if query(t, url, "SELECT count(*) FROM entries", &count); count != 60 {
		t.Errorf("%d entries\n%s", count, a.stderr.String())
	}
}

func testExecClaims(t *testing.T, x *theatre) {
	one, two := protected(t), protected(t)
	// In each database, before the command starts.
	x.exec(append([]string{"--claim", one, "--claim", two, "--"}, psql(t, two, fmt.Sprintf(insert, "x"))...)...).ends(0)
	for _, url := range []string{one, two} {
		var writer int64
		if query(t, url, "SELECT writer FROM fence.marks WHERE resource = 'orders'", &writer); writer == 0 {
			t.Errorf("not claimed")
		}
	}
	never := []string{"--", "sh", "-c", "echo started"}
	claim := func(url string) []string { return append([]string{"--claim", one, "--claim", url}, never...) }
	ends := func(url string, code int, words ...string) {
		t.Helper()
		if out := x.exec(claim(url)...).ends(code, words...); out != "" {
			t.Errorf("the command has run: %q", out)
		}
	}
	ends(testenv.Postgres(t).Database(t), cli.ExitSchema, "not installed", "fenceproxy migrate up")
	ends(clitest.Nowhere, cli.ExitUnreachable, "cannot reach Postgres")
	name, password := testenv.Postgres(t).Role(t, "LOGIN")
	ends(testenv.URLAs(two, name, "wr0ng"), cli.ExitDenied, "refuses user")
	a := x.exec(claim(testenv.URLAs(two, name, password))...)
	a.ends(cli.ExitDenied, `run "fenceproxy migrate up --grant `+name+`"`)
	if strings.Contains(a.stderr.String(), "use the owner") {
		t.Errorf("two pieces of advice: %s", a.stderr.String())
	}

	foreign := protected(t)
	clitest.Execute(t, foreign, "SELECT fence.claim('ft1:x:5:h:somebody:orders')")
	ends(foreign, cli.ExitDenied, "foreign issuer", "fenceproxy marks adopt 'orders' --issuer ", " --postgres URL, as the owner of the schema fence")
	// A lock service whose numbers went back, and that takes no floor.
	clitest.Execute(t, two, "UPDATE fence.marks SET writer = writer + 1000000000")
	ends(two, cli.ExitDenied, "stale token", "the lock service hands out numbers")
	if left := x.keys(x.client()); len(left.Kvs) > 0 {
		t.Errorf("left in etcd: %v", left.Kvs)
	}
}

func testExecClaimBlocked(t *testing.T, x *theatre) {
	url := protected(t)
	name, password := testenv.Postgres(t).Role(t, "LOGIN") // superusers cannot be evicted
	clitest.Run(t, "migrate", "up", "--postgres", url, "--grant", name).Want(t, cli.ExitOK)
	clitest.Execute(t, url, "GRANT INSERT ON entries TO "+name)
	a := x.exec(append([]string{"--claim", url, "--"}, "sh", "-c", `echo $$; read -r x; echo $FENCE_TOKEN`)...).up()
	_, _ = a.in.Write([]byte("\n"))
	token := a.line()
	a.ends(0)
	conn, err := pgx.Connect(t.Context(), testenv.URLAs(url, name, password))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, s := range []string{"SET fence.token = '" + token + "'", "BEGIN", fmt.Sprintf(insert, "open")} {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	x.exec("--claim", url, "--claim-wait", "200ms", "--", "true").ends(cli.ExitHeld, strconv.Itoa(int(conn.PgConn().PID())), "--evict")
	x.exec("--claim", url, "--claim-wait", "200ms", "--evict", "--", "true").ends(0)
	if _, err := conn.Exec(t.Context(), "COMMIT"); err == nil {
		t.Error("the older holder was not evicted")
	}
}

// Redis has lost its numbers, and its clock is behind: exec acquires above the
// mark.
func testExecHeals(t *testing.T, x *theatre) {
	for _, mode := range []string{"x", "s"} {
		url := protected(t)
		ahead := time.Now().Add(time.Hour).UnixMicro()
		clitest.Execute(t, url, fmt.Sprintf("SELECT fence.claim('ft1:%s:%d:h:redis:orders')", mode, ahead))
		lock := fmt.Sprintf("redis://%s?prefix=%s:", testenv.Redis(t).Addr(), locks.NewID())
		args := append([]string{"--lock", lock, "--resource", "orders", "--claim", url, "--"}, "sh", "-c", `echo $FENCE_TOKEN; `+shellWords(psql(t, url, fmt.Sprintf(insert, "healed"))))
		a := x.start(args...)
		token, err := guard.Parse(a.line())
		if err != nil || token.Number != ahead+1 {
			t.Errorf("token %+v, %v, want the number %d", token, err, ahead+1)
		}
		a.ends(0)
		if got := notes(t, url); got != "healed" {
			t.Errorf("entries: %q", got)
		}
	}
}
