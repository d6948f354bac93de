package localserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// parentEnv makes this test binary a parent that starts a child, prints its
// process id, and waits to be killed.
const parentEnv = "LOCALSERVER_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) != "" {
		child, err := localserver.Start(exec.Command("sleep", "600"), syscall.SIGKILL)
		if err != nil {
			panic(err)
		}
		fmt.Println(child.Pid)
		select {}
	}
	os.Exit(testenv.Run(m))
}

func bin(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../.bin")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips where there is none
	program, err := localserver.FindPostgres(t.Context(), bin(t))
	if err != nil {
		t.Fatal(err)
	}
	server, err := program.Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), server.Address)
	if err != nil {
		t.Fatal(err)
	}
	var major int
	if err := conn.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int / 10000").Scan(&major); err != nil {
		t.Fatal(err)
	}
	if major != program.Major {
		t.Errorf("server has version %d, program %d", major, program.Major)
	}
	conn.Close(t.Context())

	withoutPassword := strings.Replace(server.Address, conn.Config().Password, "wrong", 1)
	if _, err := pgx.Connect(t.Context(), withoutPassword); err == nil {
		t.Error("the server lets anybody in")
	}
	server.Stop()
	if _, err := pgx.Connect(t.Context(), server.Address); err == nil {
		t.Error("the server still runs")
	}
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	testenv.Etcd(t) // skips where there is none
	path, err := localserver.FindEtcd(bin(t))
	if err != nil {
		t.Fatal(err)
	}
	server, err := localserver.StartEtcd(t.Context(), path, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()
}

func TestStartStopsWithContext(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t)
	program, err := localserver.FindPostgres(t.Context(), bin(t))
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := program.Start(ctx, t.TempDir()); !errors.Is(err, why) {
		t.Errorf("Start with an ended context: %v, want %v", err, why)
	}
}

func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := localserver.FindEtcd(t.TempDir()); !errors.Is(err, localserver.ErrMissing) {
		t.Errorf("FindEtcd where there is none: %v", err)
	}
}

func TestBrokenServerSaysWhy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "etcd")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho no luck today >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := localserver.StartEtcd(t.Context(), path, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "no luck today") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error does not tell how it ended and why: %v", err)
	}
}

func TestFreezeAndThaw(t *testing.T) {
	t.Parallel()
	child := exec.Command("sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done")
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	child.Stdout = in
	p, err := localserver.Start(child, syscall.SIGKILL)
	in.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer p.End(0)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	if state := stateOf(t, p.Pid); state != "T" {
		t.Errorf("after Freeze the state is %q, want T", state)
	}
	// It obeys only when it is thawed.
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Thaw(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := p.Err(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("ended with %v, want exit status 7", err)
	}
	if err := p.Freeze(); err == nil {
		t.Error("Freeze of a process that has ended: no error")
	}
}

// The whole point of the package: whatever is started dies with whoever
// started it, also by SIGKILL, which nobody can handle.
func TestDiesWithParent(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"=1")
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(line, &pid); err != nil {
		t.Fatal(err)
	}
	if state := stateOf(t, pid); state == "" {
		t.Fatal("the child does not run")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	poll, deadline := time.NewTicker(20*time.Millisecond), time.After(20*time.Second)
	defer poll.Stop()
	for {
		state := stateOf(t, pid)
		if state == "" || state == "Z" {
			return
		}
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("the child outlives its parent, state %s", state)
		}
	}
}

// stateOf is the state of a process, e.g. "T" for stopped; "" if there is none.
func stateOf(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

// What root alone can reach is copied for a server that refuses to be root, to
// where that server can reach it.
func TestPostgresOutOfReach(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // everything that can be found can be run
	}
	testenv.Postgres(t)
	program, err := localserver.FindPostgres(t.Context(), bin(t))
	if err != nil {
		t.Fatal(err)
	}
	hiding := filepath.Join(t.TempDir(), "hiding")
	if err := os.Mkdir(hiding, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(hiding)), 0o711); err != nil { // open, as /tmp is
		t.Fatal(err)
	}
	hidden := filepath.Join(hiding, fmt.Sprintf("postgres-%d", program.Major))
	if err := os.CopyFS(hidden, os.DirFS(filepath.Dir(program.Bin))); err != nil {
		t.Fatal(err)
	}
	found, err := localserver.FindPostgres(t.Context(), hiding)
	if err != nil || found.Bin != filepath.Join(hidden, "bin") {
		t.Fatalf("found %+v (%v), want the one in %s", found, err, hidden)
	}
	if same, err := localserver.FindPostgresMajor(program.Major, hiding); err != nil || same != found {
		t.Errorf("found %+v (%v), want %+v", same, err, found)
	}
	data := filepath.Join(hiding, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := found.Start(t.Context(), data); err == nil || !strings.Contains(err.Error(), "root alone can reach") {
		t.Errorf("started with data that root alone can reach: %v", err)
	}
	server, err := found.Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()
}

// A server that finds its port taken by somebody who was faster gets another.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	var tried []int
	start := func(ports []int) error {
		tried = append(tried, ports...)
		if len(tried) > 2 {
			return nil
		}
		return errors.New("listen tcp: bind: Address already in use")
	}
	if err := localserver.OnFreePorts(2, start); err != nil || len(tried) != 4 || tried[0] == tried[2] {
		t.Errorf("ports %v, %v", tried, err)
	}
	other := errors.New("no luck today")
	if err := localserver.OnFreePorts(1, func([]int) error { return other }); !errors.Is(err, other) {
		t.Errorf("another error: %v", err)
	}
	calls := 0
	err := localserver.OnFreePorts(1, func([]int) error { calls++; return syscall.EADDRINUSE })
	if !errors.Is(err, syscall.EADDRINUSE) || calls != localserver.StartAttempts {
		t.Errorf("always taken: %d attempts, %v", calls, err)
	}
}
