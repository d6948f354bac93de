package demo

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

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
)

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
	s.cmd.Env = append(os.Environ(), clitest.MarkerEnv+"="+s.marker, "TMPDIR="+s.tmp, connect.DatabaseEnv+"=")
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
	return append(clitest.ProcessesOf(s.marker), files...)
}
