package stage

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/test/chaos/nemesis"
	"github.com/fenceproxy/fenceproxy/test/chaos/worker"
)

// endLimit is how long a worker may take to end what it does.
const endLimit = 60 * time.Second

// hand is one worker's place, and the process that has it now.
type hand struct {
	tb      testing.TB
	job     worker.Job // of the first one
	program string
	hired   int // processes so far
	process *localserver.Process
	stdin   io.Closer
}

// hire starts a process. It knows nothing of this program's environment.
func (h *hand) hire() {
	h.tb.Helper()
	h.hired++
	job := h.job
	job.Name = fmt.Sprintf("%s.%d", job.Name, h.hired)
	job.Seed += uint64(h.hired) << 32
	text, err := json.Marshal(job)
	if err != nil {
		h.tb.Fatal(err)
	}
	if h.program == "" {
		if h.program, err = os.Executable(); err != nil {
			h.tb.Fatal(err)
		}
	}
	in, stdin, err := os.Pipe()
	if err != nil {
		h.tb.Fatal(err)
	}
	defer in.Close()
	cmd := exec.Command(h.program, worker.Arg)
	cmd.Env = []string{}
	cmd.Stdin, h.stdin = in, stdin
	if h.process, err = localserver.StartLogged(cmd, h.log(), syscall.SIGKILL); err != nil {
		h.tb.Fatal(err)
	}
	if _, err := stdin.Write(append(text, '\n')); err != nil {
		h.tb.Fatalf("%s: %v", job.Name, err)
	}
}

func (h *hand) log() string {
	return filepath.Join(h.job.History, fmt.Sprintf("%s.%d.log", h.job.Name, h.hired))
}

// kill ends the process as a crash does.
func (h *hand) kill() {
	h.process.End(0)
	h.stdin.Close()
}

// dismiss lets the process end what it does.
func (h *hand) dismiss() {
	h.tb.Helper()
	h.stdin.Close()
	select {
	case <-h.process.Done():
	case <-time.After(endLimit):
		h.process.End(time.Second, syscall.SIGQUIT) // tells in the log where it hangs
		h.tb.Errorf("%s did not end within %v", h.log(), endLimit)
		return
	}
	if err := h.process.Err(); err != nil {
		h.tb.Errorf("%s: %v\n%s", h.log(), err, h.said())
	}
}

// said is what the process has written to its log.
func (h *hand) said() string {
	text, err := os.ReadFile(h.log())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// faults are what may happen to a worker.
func (h *hand) faults(ttl time.Duration) []nemesis.Fault {
	name := "worker " + h.job.Name
	all := []nemesis.Fault{
		nemesis.Stopped(name, 6, 2*ttl, func(tb testing.TB) {
			tb.Helper()
			if err := h.process.Freeze(); err != nil {
				tb.Fatalf("%v\n%s", err, h.said())
			}
		}, func(tb testing.TB) {
			tb.Helper()
			if err := h.process.Thaw(); err != nil {
				tb.Fatal(err)
			}
		}),
		nemesis.Killed(name, 2, nemesis.Moment/4, func(testing.TB) { h.kill() }, func(tb testing.TB) { tb.Helper(); h.hire() }),
	}
	all[0].Name, all[1].Name = "worker stopped", "worker killed"
	return all
}
