package soak_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/test/soak/load"
)

// member is a place for one process after the other, all of which are killed.
type member struct {
	tb      testing.TB
	job     load.Job
	log     string
	process *localserver.Process
	stdin   io.Closer
}

func hire(tb testing.TB, n int, job load.Job) *member {
	tb.Helper()
	m := &member{tb: tb, job: job, log: filepath.Join(tb.ArtifactDir(), fmt.Sprintf("worker-%d.log", n))}
	m.start()
	tb.Cleanup(m.kill)
	return m
}

// start starts a process. It knows nothing of this program's environment.
func (m *member) start() {
	m.tb.Helper()
	m.job.Seed++
	text, err := json.Marshal(m.job)
	if err != nil {
		m.tb.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		m.tb.Fatal(err)
	}
	in, stdin, err := os.Pipe()
	if err != nil {
		m.tb.Fatal(err)
	}
	defer in.Close()
	cmd := exec.Command(program, workerArg)
	cmd.Env = []string{}
	cmd.Stdin, m.stdin = in, stdin
	if m.process, err = localserver.StartLogged(cmd, m.log, syscall.SIGKILL); err != nil {
		m.tb.Fatal(err)
	}
	if _, err := stdin.Write(text); err != nil {
		m.tb.Fatal(err)
	}
}

// kill ends the process as a crash does.
func (m *member) kill() {
	m.process.End(0)
	m.stdin.Close()
}

// replace kills the process and starts another. One that has ended by itself has
// something to say.
func (m *member) replace() {
	m.tb.Helper()
	select {
	case <-m.process.Done():
		said, _ := os.ReadFile(m.log)
		m.tb.Errorf("a worker has ended by itself: %v\n%s", m.process.Err(), said)
	default:
	}
	m.kill()
	m.start()
}
