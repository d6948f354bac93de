package testenv

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
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

// process is a running program whose output is in a log.
type process struct {
	*localserver.Process
	logPath string
}

func (c command) start() (*process, error) {
	log, err := os.OpenFile(c.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", c.path, err)
	}
	defer log.Close()
	cmd := exec.Command(c.path, c.args...)
	cmd.Dir = filepath.Dir(c.logPath)
	cmd.Stdout, cmd.Stderr = log, log
	c.account.run(cmd)
	p, err := localserver.Start(cmd, c.onDeath)
	if err != nil {
		return nil, err
	}
	return &process{p, c.logPath}, nil
}

// run makes cmd run as the account.
func (a *account) run(cmd *exec.Cmd) {
	if a != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.gid}}
	}
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

// grace is how long a signal may take to end a process.
const grace = 5 * time.Second

// end sends signals until the process has ended, at last SIGKILL. A nil one
// has ended.
func (p *process) end(signals ...syscall.Signal) {
	if p != nil {
		p.End(grace, signals...)
	}
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
		case <-p.Done():
			return fmt.Errorf("ended before it was ready: %w\n%s", cmp.Or(p.Err(), errEnded), logTail(p.logPath))
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
