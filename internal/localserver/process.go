package localserver

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a running program. It is safe for use by many goroutines.
type Process struct {
	*os.Process
	log  string // path of its output, "" if that goes elsewhere
	done chan struct{}
	err  error
}

// Start starts cmd in a process group of its own, so that Ctrl-C in a terminal
// reaches this process only, and arranges that it gets onDeath when this
// process dies. It waits for cmd itself: don't call cmd.Wait. If cmd has a
// context, that one should not end before the program does: it would kill what
// End lets end orderly.
func Start(cmd *exec.Cmd, onDeath syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr, onDeath)
	p := &Process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the *thread* that started the
		// program ends (prctl(2), PR_SET_PDEATHSIG), so that thread is kept
		// for as long as the program runs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		p.Process = cmd.Process
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// StartLogged is Start with the program's output in the file log, emptied
// before. The program runs in the root folder: the one with its data may be out
// of its reach until it has the capability to ignore permissions, which is
// after it has changed folders.
func StartLogged(cmd *exec.Cmd, log string, onDeath syscall.Signal) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", cmd.Path, err)
	}
	defer file.Close()
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = file, file
	p, err := Start(cmd, onDeath)
	if err != nil {
		return nil, err
	}
	p.log = log
	return p, nil
}

// Done is closed when the program has ended and its output has been read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err waits for the end of the program and returns how it ended, as
// exec.Cmd.Wait does: nil for exit code 0.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// End sends signals, each with grace to take effect, and then SIGKILL, until
// the program has ended. It returns only then. A nil Process has ended.
func (p *Process) End(grace time.Duration, signals ...syscall.Signal) {
	if p == nil {
		return
	}
	for _, s := range signals {
		if p.Signal(s) != nil {
			break // it has ended, or is out of reach of signals
		}
		select {
		case <-p.done:
			return
		case <-time.After(grace):
		}
	}
	_ = p.Kill() // fails only if it has ended
	<-p.done
}

// Freeze stops the program with SIGSTOP and returns when none of its threads
// runs any more. Thaw lets it go on.
func (p *Process) Freeze() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop process %d: %w", p.Pid, err)
	}
	if err := awaitStop(p.Pid); err != nil {
		return fmt.Errorf("wait for process %d to stop: %w", p.Pid, err)
	}
	return nil
}

// Thaw lets a frozen program go on.
func (p *Process) Thaw() error {
	if err := p.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("continue process %d: %w", p.Pid, err)
	}
	return nil
}
