package execute

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
)

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
	clitest.CheckGone(a.t, a.alive())
	return string(out)
}

// alive are the processes of this run.
func (a *act) alive() []string { return clitest.ProcessesOf(a.marker) }

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
