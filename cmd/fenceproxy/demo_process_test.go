package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// markerEnv tells the processes of one test from all others.
const markerEnv = "FENCEPROXY_DEMO_TEST"

// built builds the program into a folder with links to the servers in .bin, so
// that they are beside it as they are in a checkout.
func built(t testing.TB) string {
	t.Helper()
	dir, module := t.TempDir(), moduleFolder(t)
	servers, _ := filepath.Glob(filepath.Join(module, ".bin", "*"))
	for _, server := range servers {
		if err := os.Symlink(server, filepath.Join(dir, filepath.Base(server))); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "fenceproxy")
	if err := os.RemoveAll(path); err != nil { // `make build` leaves one in .bin
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/fenceproxy")
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// moduleFolder is the folder of this module, which tests run somewhere below.
func moduleFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("there is no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
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
	files, _ := filepath.Glob(filepath.Join(s.tmp, "*"))
	return append(processesOf(s.marker), files...)
}

// processesOf are the processes of the test with a marker in their environment.
func processesOf(marker string) []string {
	var left []string
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes {
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err == nil && bytes.Contains(environ, []byte(markerEnv+"="+marker)) {
			cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			left = append(left, filepath.Base(dir)+" "+string(bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})))
		}
	}
	return left
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
