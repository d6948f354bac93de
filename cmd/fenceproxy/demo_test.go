package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/internal/demo"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// markerEnv tells the processes of one test from all others.
const markerEnv = "FENCEPROXY_DEMO_TEST"

// built builds the program into a folder with links to the servers in .bin, so
// that they are beside it as they are in a checkout.
func built(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	servers, _ := filepath.Glob("../../.bin/*")
	for _, server := range servers {
		target, err := filepath.Abs(server)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(dir, filepath.Base(server))); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "fenceproxy")
	if err := os.RemoveAll(path); err != nil { // `make build` leaves one in .bin
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// show is a demo that runs in a process, whose traces can be looked for.
type show struct {
	cmd    *exec.Cmd
	marker string
	tmp    string
	out    *bufio.Reader // the timeline, or with --json the result
	stderr bytes.Buffer
}

func start(t *testing.T, program string, args ...string) *show {
	t.Helper()
	s := &show{marker: rand.Text(), tmp: t.TempDir()}
	s.cmd = exec.CommandContext(t.Context(), program, append([]string{"demo", "--lease-ttl", "2s"}, args...)...)
	s.cmd.Env = append(os.Environ(), markerEnv+"="+s.marker, "TMPDIR="+s.tmp, postgresEnv+"=")
	s.cmd.Stderr = &s.stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(stdout)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// wait returns what is left on standard output, and the exit code.
func (s *show) wait(t *testing.T) (string, int) {
	t.Helper()
	var out strings.Builder
	if _, err := s.out.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), s.cmd.ProcessState.ExitCode()
}

// until reads the timeline up to a line that contains text.
func (s *show) until(t *testing.T, text string) {
	t.Helper()
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			t.Fatalf("the timeline ends before %q: %v\n%s", text, err, s.stderr.String())
		}
		if strings.Contains(line, text) {
			return
		}
	}
}

// leftBehind is what is left in this machine: processes and files.
func (s *show) leftBehind() []string {
	var left []string
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes {
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err == nil && bytes.Contains(environ, []byte(markerEnv+"="+s.marker)) {
			cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			left = append(left, filepath.Base(dir)+" "+string(bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})))
		}
	}
	files, _ := filepath.Glob(filepath.Join(s.tmp, "*"))
	return append(left, files...)
}

// eventually polls for what a killed demo leaves to its cleaner.
func eventually(t *testing.T, what func() []string) {
	t.Helper()
	poll, deadline := time.NewTicker(50*time.Millisecond), time.After(60*time.Second)
	defer poll.Stop()
	for {
		left := what()
		if len(left) == 0 {
			return
		}
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("left behind:\n%s", strings.Join(left, "\n"))
		}
	}
}

func checkGone(t *testing.T, left []string) {
	t.Helper()
	if len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
}

// result checks the one line that demo --json ends with.
func result(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	var r demo.Result
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatalf("last line of stdout: %v\n%s", err, out)
	}
	if len(lines) != 1 {
		t.Errorf("stdout has more than the result:\n%s", out)
	}
	unfenced := demo.Account{StaleWritesApplied: 1, Acknowledged: 4, Entries: 4, Amount: 130, Balance: 1100, Expected: 1130}
	if r.Unfenced != unfenced {
		t.Errorf("unfenced: %+v, want %+v", r.Unfenced, unfenced)
	}
	fenced := demo.Account{StaleWritesRefused: 1, Acknowledged: 4, Entries: 4, Amount: 130, Balance: 1130, Expected: 1130, Right: true}
	if r.Fenced != fenced {
		t.Errorf("fenced: %+v, want %+v", r.Fenced, fenced)
	}
}

// The story on servers of its own, from end to end.
func TestDemo(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips where
	testenv.Etcd(t)     // there is none
	program := built(t)

	t.Run("own servers", func(t *testing.T) {
		t.Parallel()
		s := start(t, program, "--json")
		out, code := s.wait(t)
		if code != exitOK {
			t.Fatalf("exit code %d\n%s", code, s.stderr.String())
		}
		result(t, out)
		checkGone(t, s.leftBehind())
		for _, line := range []string{
			"SIGSTOP to worker 1", "waits: the lease of worker 1", "acquired the lock", "ft1:x:",
			"SIGCONT to worker 1", "THE LEDGER IS WRONG", "REFUSED, nothing written: TK001", "the ledger is right",
		} {
			if !strings.Contains(s.stderr.String(), line) {
				t.Errorf("the timeline has no %q:\n%s", line, s.stderr.String())
			}
		}
		if strings.Contains(s.stderr.String(), "\x1b") {
			t.Error("colours outside of a terminal")
		}
	})
	t.Run("guest of a superuser", func(t *testing.T) { t.Parallel(); testGuest(t, program, guest{}) })
	t.Run("guest of a role", func(t *testing.T) { t.Parallel(); testGuest(t, program, guest{role: true}) })
	t.Run("guest of a fenced database", func(t *testing.T) { t.Parallel(); testGuest(t, program, guest{fence: true}) })
	t.Run("guest of a role in a fenced database", func(t *testing.T) {
		t.Parallel()
		testGuest(t, program, guest{role: true, fence: true})
	})
	t.Run("interrupted", func(t *testing.T) { t.Parallel(); testStopped(t, program, syscall.SIGINT, 130) })
	t.Run("terminated", func(t *testing.T) { t.Parallel(); testStopped(t, program, syscall.SIGTERM, 143) })
	t.Run("killed", func(t *testing.T) { t.Parallel(); testStopped(t, program, syscall.SIGKILL, -1) })
	t.Run("killed as a guest", func(t *testing.T) { t.Parallel(); testKilledGuest(t, program) })
	t.Run("servers that are not there", func(t *testing.T) { t.Parallel(); testNoServers(t, program) })
}

// guest says how the demo comes to servers of somebody else: as a role that
// may not create a database, or into a database with a fence.
type guest struct{ role, fence bool }

func testGuest(t *testing.T, program string, g guest) {
	s := testenv.StartPostgres(t, testenv.PostgresConfig{})
	etcd := testenv.StartEtcd(t, testenv.EtcdConfig{})
	admin := s.Database(t)
	url := admin
	var grant []string
	if g.role {
		name, password := s.Role(t, "LOGIN")
		url = testenv.URLAs(admin, name, password)
		execute(t, admin, fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s",
			pgx.Identifier{databaseOf(t, admin)}.Sanitize(), pgx.Identifier{name}.Sanitize()))
		grant = []string{"--grant", name}
	}
	if g.fence {
		run(t, append([]string{"migrate", "up", "--postgres", admin}, grant...)...).want(t, exitOK)
	}
	before := inside(t, admin, etcd)

	show := start(t, program, "--json", "--postgres", url, "--etcd", etcd.Endpoints()[0])
	out, code := show.wait(t)
	if code != exitOK {
		t.Fatalf("exit code %d\n%s", code, show.stderr.String())
	}
	result(t, out)
	checkGone(t, show.leftBehind())
	after := inside(t, admin, etcd)
	if g.role && g.fence {
		// As the help text says; a mark cannot be removed.
		i := slices.IndexFunc(after, func(s string) bool { return strings.HasPrefix(s, "mark fenceproxy-demo-") })
		if i < 0 {
			t.Fatalf("no mark: the demo was not played in this database: %q", after)
		}
		after = slices.Delete(after, i, i+1)
	}
	checkGone(t, slices.DeleteFunc(after, func(s string) bool { return slices.Contains(before, s) }))
	if config, err := pgx.ParseConfig(url); err != nil || config.Password != "" && strings.Contains(show.stderr.String(), config.Password) {
		t.Errorf("the timeline has the password (%v):\n%s", err, show.stderr.String())
	}
}

// inside lists what is in the servers: databases, roles, schemas and marks,
// keys and leases.
func inside(t *testing.T, url string, etcd *testenv.EtcdServer) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	query := `SELECT 'database ' || datname FROM pg_database UNION ALL SELECT 'role ' || rolname FROM pg_roles
		UNION ALL SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%'`
	var fenced bool
	if err := conn.QueryRow(t.Context(), "SELECT to_regclass('fence.marks') IS NOT NULL").Scan(&fenced); err != nil {
		t.Fatal(err)
	}
	if fenced {
		query += " UNION ALL SELECT 'mark ' || resource FROM fence.marks"
	}
	rows, err := conn.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	keys, err := client.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range keys.Kvs {
		found = append(found, "key "+string(kv.Key))
	}
	leases, err := client.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range leases.Leases {
		found = append(found, fmt.Sprintf("lease %x", lease.ID))
	}
	return found
}

// testStopped stops the demo at its most delicate: while the first worker is
// stopped, which a signal to it would not end.
func testStopped(t *testing.T, program string, signal syscall.Signal, code int) {
	s := start(t, program)
	s.until(t, "SIGSTOP to worker 1")
	s.until(t, "worker 2")
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	out, got := s.wait(t)
	if got != code {
		t.Errorf("exit code %d, want %d\n%s", got, code, s.stderr.String())
	}
	if signal == syscall.SIGKILL {
		eventually(t, s.leftBehind)
		return
	}
	checkGone(t, s.leftBehind())
	if !strings.Contains(s.stderr.String(), "fenceproxy: stopped by SIG") || strings.Contains(out, "{") {
		t.Errorf("stderr: %s\nstdout: %s", s.stderr.String(), out)
	}
}

func testKilledGuest(t *testing.T, program string) {
	etcd := testenv.StartEtcd(t, testenv.EtcdConfig{})
	url := testenv.StartPostgres(t, testenv.PostgresConfig{}).Database(t)
	before := inside(t, url, etcd)
	s := start(t, program, "--postgres", url, "--etcd", etcd.Endpoints()[0])
	s.until(t, "SIGSTOP to worker 1")
	s.until(t, "worker 2")
	if left := inside(t, url, etcd); len(left) <= len(before) {
		t.Errorf("the test is blind: %q", left)
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.wait(t)
	eventually(t, s.leftBehind)
	eventually(t, func() []string {
		return slices.DeleteFunc(inside(t, url, etcd), func(s string) bool { return slices.Contains(before, s) })
	})
}

func testNoServers(t *testing.T, program string) {
	for _, c := range []struct {
		args  []string
		code  int
		words []string
	}{
		{[]string{"--postgres", nowhere}, exitUnreachable, []string{"cannot reach Postgres at 127.0.0.1:1"}},
		{[]string{"--etcd", "127.0.0.1:1"}, exitUnreachable, []string{"etcd at 127.0.0.1:1 does not answer", "check the address"}},
	} {
		s := start(t, program, c.args...)
		_, code := s.wait(t)
		outcome{code, "", s.stderr.String()}.want(t, c.code, c.words...)
		checkGone(t, s.leftBehind())
		if strings.Contains(s.stderr.String(), "s3cret") {
			t.Errorf("stderr has the password: %s", s.stderr.String())
		}
	}
	// Beside this program and in PATH there is no etcd.
	alone := filepath.Join(t.TempDir(), "fenceproxy")
	binary, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(alone, binary, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), alone, "demo", "--postgres", testenv.Postgres(t).Database(t))
	cmd.Env = []string{"PATH=/nonexistent", "TMPDIR=" + t.TempDir()}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	_ = cmd.Run() // its exit code tells
	outcome{cmd.ProcessState.ExitCode(), "", stderr.String()}.want(t, exitUnreachable, "etcd is not on this machine", "make servers", "--etcd")
}
