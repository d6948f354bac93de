package child

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Terminal is the controlling terminal, which one process group at a time may
// use: the one in the foreground. It belongs to this process's group, and can
// be lent to a program's.
//
// The system stops with SIGTTOU whoever takes the terminal from another group.
// So this process must ignore that signal once the program runs (not before: a
// program ignores what its parent does).
type Terminal struct {
	file  *os.File
	own   int         // this process's group
	lent  int         // the group that has it from here, 0 for none
	state *term.State // before it was lent for the first time; nil if it never was
}

// OpenTerminal opens the controlling terminal, or returns nil if there is none.
func OpenTerminal() *Terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &Terminal{file: file, own: syscall.Getpgrp()}
}

// Close closes the terminal.
func (t *Terminal) Close() error { return t.file.Close() }

// Foreground is the group that may use the terminal, 0 if that is not known.
func (t *Terminal) Foreground() int {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// Lend puts a program's group into the foreground if this process's is there.
// It reports whether the program's group may use the terminal now.
func (t *Terminal) Lend(group int) bool {
	switch t.Foreground() {
	case group:
		return true
	case t.own:
		if t.state == nil {
			t.state, _ = term.GetState(int(t.file.Fd()))
		}
		if !t.set(group) {
			return false
		}
		t.lent = group
		return true
	}
	return false
}

// TakeBack puts this process's group into the foreground again if the program's
// has it from here, or one that the program has put there and that is gone. Not
// if it is anybody else's: a shell takes the terminal from a job that stops, and
// gives it to another.
func (t *Terminal) TakeBack() {
	if t.lent == 0 {
		return
	}
	if front := t.Foreground(); front == t.lent || front > 0 && errors.Is(syscall.Kill(-front, 0), syscall.ESRCH) {
		t.set(t.own)
	}
	t.lent = 0
}

// Restore undoes what a program that was killed has done to the terminal's
// modes (not to echo, not to take lines), unless this process's group is in the
// background: then the modes are somebody else's.
func (t *Terminal) Restore() {
	if t.state != nil && t.Foreground() == t.own {
		_ = term.Restore(int(t.file.Fd()), t.state) // it may be gone
	}
}

// Stoppable reports whether somebody would continue this process if it stopped:
// a shell with job control, in another group of the same session. The system
// lets no terminal stop a group without one (an orphaned process group, as POSIX
// calls it).
func Stoppable() bool {
	session, err := unix.Getsid(0)
	group := syscall.Getpgrp()
	for parent := os.Getppid(); err == nil && parent > 1; parent, _ = relatives(strconv.Itoa(parent)) {
		if of, err := unix.Getsid(parent); err != nil || of != session {
			return false
		}
		if of, err := unix.Getpgid(parent); err != nil || of != group {
			return err == nil
		}
	}
	return false
}

func (t *Terminal) set(group int) bool {
	return unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group) == nil
}
