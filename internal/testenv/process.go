package testenv

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// account is who runs the servers that refuse to run as root; nil if this
// process is not root, and they run as we do.
type account struct{ uid, gid uint32 }

func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(errUID, errGID); err != nil {
			return nil, fmt.Errorf("read user %s: %w", name, err)
		}
		return &account{uint32(uid), uint32(gid)}, nil
	}
	return nil, errors.New("this is root, and there is no user postgres or nobody to run servers as")
}

// own gives path to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// command is a program and how it is to be run.
type command struct {
	path    string
	args    []string
	logPath string
	account *account
	// onDeath is the signal that the program gets when this process dies.
	onDeath syscall.Signal
}

// process is a running program. done is closed when it has ended, err says how.
type process struct {
	*os.Process
	logPath string
	done    chan struct{}
	err     error
}

func (c command) start() (*process, error) {
	log, err := os.OpenFile(c.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", c.path, err)
	}
	defer log.Close()
	cmd := c.account.command(filepath.Dir(c.logPath), c.path, c.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr.Pdeathsig = c.onDeath
	p := &process{logPath: c.logPath, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the *thread* that started the
		// program ends, so that thread is kept for as long as the program runs.
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
		return nil, fmt.Errorf("start %s: %w", c.path, err)
	}
	return p, nil
}

// command is a program that runs as the account in dir.
func (a *account) command(dir, path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	// A group of its own: Ctrl-C in a terminal is for the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a == nil {
		return cmd
	}
	if !reachable(path) {
		// The checkout is below a folder that is root's alone, like /root: let
		// the program pass permission checks as root does. An ambient
		// capability is there from the first exec on, which has to be that of a
		// program everybody can reach.
		cmd = exec.Command("/usr/bin/env", append([]string{path}, args...)...)
		cmd.Dir = dir
		const capDACOverride = 1
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, AmbientCaps: []uintptr{capDACOverride}}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	return cmd
}

// reachable says whether every user can enter all folders above path.
func reachable(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// errEnded is the end of a process with exit code 0.
var errEnded = errors.New("exit status 0")

// end sends signals, five seconds apart, until the process has ended; nil has.
func (p *process) end(signals ...syscall.Signal) {
	if p == nil {
		return
	}
	for _, s := range append(signals, syscall.SIGKILL) {
		p.Signal(s)
		select {
		case <-p.done:
			return
		case <-time.After(5 * time.Second):
		}
	}
	<-p.done
}

// until polls check until it returns nil, the process has ended, or limit has
// passed; the error then shows the end of the log.
func (p *process) until(limit time.Duration, check func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("ended before it was ready: %w\n%s", cmp.Or(p.err, errEnded), logTail(p.logPath))
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %v: %w\n%s", limit, err, logTail(p.logPath))
		}
	}
}

// logTail is the end of a log, for error messages.
func logTail(path string) string {
	const size = 4 << 10
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-size):]))
}
