package testenv

import (
	"context"
	"os/exec"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv/container"
	"github.com/fenceproxy/fenceproxy/internal/testenv/folder"
)

// How the Redis servers call what localserver and folder do.

var errMissing = localserver.ErrMissing

const startAttempts = localserver.StartAttempts

func freePort() (int, error)   { return localserver.FreePort() }
func loopback(port int) string { return localserver.Loopback(port) }
func portTaken(err error) bool { return localserver.PortTaken(err) }

func scratch() (string, func(), error) { return folder.New(nil) }

// command is a program and how it is to be run.
type command struct {
	path    string
	args    []string
	logPath string
	// onDeath is the signal that the program gets when this process dies.
	onDeath syscall.Signal
}

// process is a running program whose output is in a log, or a server in a
// container.
type process struct {
	*localserver.Process
	box *container.Container // nil, or Process is
}

func (c command) start() (*process, error) {
	p, err := localserver.StartLogged(exec.Command(c.path, c.args...), c.logPath, c.onDeath)
	if err != nil {
		return nil, err
	}
	return &process{Process: p}, nil
}

// grace is how long a signal may take to end a process.
const grace = 5 * time.Second

// end sends signals until the process has ended, at last SIGKILL. A nil one
// has ended.
func (p *process) end(signals ...syscall.Signal) {
	switch {
	case p == nil:
	case p.box == nil:
		p.End(grace, signals...)
	default:
		_ = p.box.Kill() // fails only if it has ended
	}
}

// Freeze stops the program where it is.
func (p *process) Freeze() error {
	if p.box != nil {
		return p.box.Freeze()
	}
	return p.Process.Freeze()
}

// Thaw lets a frozen program go on.
func (p *process) Thaw() error {
	if p.box != nil {
		return p.box.Thaw()
	}
	return p.Process.Thaw()
}

// Done is closed when the program has ended.
func (p *process) Done() <-chan struct{} {
	if p.box != nil {
		return p.box.Done()
	}
	return p.Process.Done()
}

// until polls check until it returns nil, the process has ended, or limit has
// passed; the error then shows the end of the log.
func (p *process) until(limit time.Duration, check func() error) error {
	return p.AwaitReady(context.Background(), limit, func(context.Context) error { return check() })
}
