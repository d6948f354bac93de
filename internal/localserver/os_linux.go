package localserver

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

func dieWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }

// ignorePermissions lets a program that is not root's pass permission checks
// as root does, so that it can enter folders that are root's alone.
func ignorePermissions(attr *syscall.SysProcAttr) {
	attr.AmbientCaps = append(attr.AmbientCaps, unix.CAP_DAC_OVERRIDE)
}

// awaitStop returns when every thread of the child pid is stopped. WNOWAIT
// leaves the child's state to whoever waits for its end.
func awaitStop(pid int) error {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("waitid: %w", err)
		}
		const stopped = 5 // CLD_STOPPED of sigaction(2)
		if info.Code != stopped {
			return errors.New("it ended first")
		}
		return nil
	}
}
