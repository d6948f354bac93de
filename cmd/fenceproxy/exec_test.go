package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

// shortTTL is for tests in which a lease is lost.
const shortTTL = "3s"

// TestExec runs the built program: what matters is what becomes of processes.
func TestExec(t *testing.T) {
	t.Parallel()
	program := built(t)
	for name, f := range map[string]func(*testing.T, *theatre){
		"exit codes":          testExecExitCodes,
		"streams":             testExecStreams,
		"environment":         testExecEnvironment,
		"held":                testExecHeld,
		"shared":              testExecShared,
		"lock services":       testExecLockServices,
		"unreachable":         testExecUnreachable,
		"print":               testExecPrint,
		"signals":             testExecSignals,
		"signals while wait":  testExecSignalsWhileWaiting,
		"suspended":           testExecSuspended,
		"lease revoked":       testExecRevoked,
		"lock service frozen": testExecFrozen,
		"stopped":             testExecStopped,
		"killed":              testExecKilled,
		"left behind":         testExecLeftBehind,
		"psql":                testExecPsql,
		"stale psql":          testExecStalePsql,
		"pgbench":             testExecPgbench,
		"claims":              testExecClaims,
		"claim blocked":       testExecClaimBlocked,
		"claim heals":         testExecHeals,
		"terminal":            testExecTerminal,
		"terminal, pipeline":  testExecPipeline,
		"terminal, psql":      testExecTerminalPsql,
		"terminal, shared":    testExecBackground,
		"signal at start":     testExecSignalAtStart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := testenv.Etcd(t)
			f(t, &theatre{t: t, program: program, etcd: etcd, prefix: "test/" + locks.NewID() + "/"})
		})
	}
}

// theatre is where a test plays.
type theatre struct {
	t       *testing.T
	program string
	etcd    *testenv.EtcdServer
	prefix  string // of the keys in etcd
}

// lock is the URL of the lock service; through a link if addr is not "".
func (x *theatre) lock(addr string) string {
	if addr == "" {
		addr = x.etcd.Endpoints()[0]
	}
	return "etcd://" + addr + "/" + x.prefix
}

func (x *theatre) client() *clientv3.Client {
	x.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: x.etcd.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { client.Close() })
	return client
}

// keys are those of the locks of orders.
func (x *theatre) keys(client *clientv3.Client) *clientv3.GetResponse {
	x.t.Helper()
	found, err := client.Get(x.t.Context(), x.prefix+"orders/", clientv3.WithPrefix())
	if err != nil {
		x.t.Fatal(err)
	}
	return found
}

// revoke takes the lease away from whoever holds orders.
func (x *theatre) revoke() {
	x.t.Helper()
	client := x.client()
	found := x.keys(client)
	if len(found.Kvs) != 1 {
		x.t.Fatalf("there are %d keys", len(found.Kvs))
	}
	if _, err := client.Revoke(x.t.Context(), clientv3.LeaseID(found.Kvs[0].Lease)); err != nil {
		x.t.Fatal(err)
	}
}

// act is a run of exec in a process.
type act struct {
	t      *testing.T
	cmd    *exec.Cmd
	marker string
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer // to be read after wait
	pid    int          // that the command printed
}

// exec starts exec on orders with the lock in etcd; args follow its flags.
func (x *theatre) exec(args ...string) *act {
	x.t.Helper()
	return x.start(append([]string{"--lock", x.lock(""), "--resource", "orders"}, args...)...)
}

func (x *theatre) start(args ...string) *act {
	x.t.Helper()
	a := x.prepare(args...)
	if err := a.cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	a.watch()
	return a
}

func (x *theatre) prepare(args ...string) *act {
	x.t.Helper()
	a := &act{t: x.t, marker: rand.Text(), cmd: exec.Command(x.program, append([]string{"exec"}, args...)...)}
	a.cmd.Env = append(os.Environ(), markerEnv+"="+a.marker)
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell starts a job
	a.cmd.Stderr = &a.stderr
	stdout, err := a.cmd.StdoutPipe()
	if err != nil {
		x.t.Fatal(err)
	}
	a.out = bufio.NewReader(stdout)
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		if a.cmd.Process != nil {
			_ = a.cmd.Process.Kill()
			_ = a.cmd.Wait()
		}
	})
	return a
}

// watch ends a run that hangs, so that the test fails and not the whole binary,
// and has it say where: SIGABRT is not the command's, and makes exec dump its
// goroutines. What was left behind, perhaps holding streams open, is named.
func (a *act) watch() {
	hangs := time.AfterFunc(2*time.Minute, func() {
		a.t.Errorf("%s hangs; its processes:\n%s", a.cmd, strings.Join(a.alive(), "\n"))
		_ = a.cmd.Process.Signal(syscall.SIGABRT)
		<-time.After(5 * time.Second)
		for _, process := range a.alive() {
			if pid, err := strconv.Atoi(strings.Fields(process)[0]); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	a.t.Cleanup(func() { hangs.Stop() })
}

// says wants a line on standard output.
func (a *act) says(want string) {
	a.t.Helper()
	if got := a.line(); got != want {
		a.t.Fatalf("the command says %q, want %q", got, want)
	}
}

func (a *act) line() string {
	a.t.Helper()
	line, err := a.out.ReadString('\n')
	if err != nil {
		_ = a.cmd.Wait()
		a.t.Fatalf("read line: %v\nstderr: %s", err, a.stderr.String())
	}
	return strings.TrimSuffix(line, "\n")
}

// up reads the process id that the command prints when it is ready.
func (a *act) up() *act {
	a.t.Helper()
	var err error
	if a.pid, err = strconv.Atoi(a.line()); err != nil {
		a.t.Fatal(err)
	}
	return a
}

// ends wants the exit code and, unless words is empty, one line of ours that
// has them on standard error. Nothing may be left. It returns the rest of
// standard output.
func (a *act) ends(code int, words ...string) string {
	a.t.Helper()
	a.in.Close()
	out, err := io.ReadAll(a.out)
	if err != nil {
		a.t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := a.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		a.t.Fatal(err)
	}
	if got := a.cmd.ProcessState.ExitCode(); got != code {
		a.t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", got, code, out, a.stderr.String())
	}
	lines := strings.Split(strings.TrimSuffix(a.stderr.String(), "\n"), "\n")
	last := lines[len(lines)-1]
	if len(words) == 0 && strings.Contains(last, "fenceproxy: ") || len(words) > 0 && !strings.HasPrefix(last, "fenceproxy: ") {
		a.t.Errorf("stderr: %s", a.stderr.String())
	}
	for _, word := range words {
		if !strings.Contains(last, word) {
			a.t.Errorf("stderr has no %q: %s", word, a.stderr.String())
		}
	}
	checkGone(a.t, a.alive())
	return string(out)
}

// alive are the processes of this run.
func (a *act) alive() []string {
	return (&show{marker: a.marker, tmp: "/nonexistent"}).leftBehind()
}

func (a *act) signal(s os.Signal) {
	a.t.Helper()
	if err := a.cmd.Process.Signal(s); err != nil {
		a.t.Fatal(err)
	}
}

// state is the letter of a process's state, "" if there is none.
func state(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return string(bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])[0])
}

func isAlive(pid int) bool { s := state(pid); return s != "" && s != "Z" }

// until polls.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	poll, deadline := time.NewTicker(10*time.Millisecond), time.After(60*time.Second)
	defer poll.Stop()
	for !cond() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func testExecExitCodes(t *testing.T, x *theatre) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"plain": 0o644, "empty": 0o755} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("\x01\x02"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"true"}, 0, nil},
		{[]string{"false"}, 1, nil},
		{[]string{"sh", "-c", "exit 76"}, 76, nil},
		{[]string{"sh", "-c", "exit 255"}, 255, nil},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, nil},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, nil},
		{[]string{"sh", "-c", "kill -SEGV $$"}, 139, nil},
		{[]string{"no-such-command"}, 127, []string{"no-such-command: command not found"}},
		{[]string{"/no/such/command"}, 127, []string{"/no/such/command: command not found"}},
		{[]string{dir + "/plain"}, 126, []string{"cannot run", "permission denied"}},
		{[]string{dir + "/empty"}, 126, []string{"it is no program"}},
		{[]string{dir}, 126, []string{"is a directory"}},
	} {
		x.exec(append([]string{"--"}, c.args...)...).ends(c.code, c.says...)
	}
	if left := x.keys(x.client()); len(left.Kvs) > 0 {
		t.Errorf("left in etcd: %v", left.Kvs)
	}
}

func testExecStreams(t *testing.T, x *theatre) {
	data := make([]byte, 3<<20)
	_, _ = rand.Read(data)
	a := x.prepare("--lock", x.lock(""), "--resource", "orders", "--", "sh", "-c", `cat; cat <&9 >&2; printf '%s|' "$@"; pwd`, "name", "", "a b", "*\n", "--wait")
	a.cmd.Dir = t.TempDir()
	// A descriptor beyond the standard streams, at a number that nothing else has.
	ninth, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer ninth.Close()
	if _, err := ninth.WriteAt([]byte("the ninth\n"), 0); err != nil {
		t.Fatal(err)
	}
	a.cmd.ExtraFiles = []*os.File{6: ninth}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = a.in.Write(data); a.in.Close() }()
	got, err := io.ReadAll(a.out)
	if err != nil {
		t.Fatal(err)
	}
	if want := string(data) + "|a b|*\n|--wait|" + a.cmd.Dir + "\n"; string(got) != want {
		t.Errorf("got %d bytes ending in %q, want %d ending in %q", len(got), got[max(0, len(got)-50):], len(want), want[len(want)-50:])
	}
	a.ends(0)
	if a.stderr.String() != "the ninth\n" {
		t.Errorf("stderr: %q", a.stderr.String())
	}
	// The other end learns that the command closed a stream while it runs on.
	b := x.exec("--", "sh", "-c", "exec <&- >&-; while [ -d /proc/$PPID ]; do sleep 0.05; done")
	if text, err := io.ReadAll(b.out); err != nil || len(text) > 0 {
		t.Errorf("read what was closed: %q, %v", text, err)
	}
	for err = nil; err == nil; { // until the pipe is broken
		_, err = b.in.Write(make([]byte, 1<<16))
	}
	b.signal(os.Interrupt)
	b.ends(130)
}
