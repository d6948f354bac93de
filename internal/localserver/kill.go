package localserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Kill ends the server as a crash does, the postmaster and all its children,
// and returns when they are gone. They all stop before the first one dies, so
// that none can act on another's death. Linux only.
func (c *Cluster) Kill() error {
	if err := c.Freeze(); err != nil {
		return err
	}
	children, err := c.signal(syscall.SIGKILL)
	if err != nil {
		return err
	}
	c.process.End(0)
	return await(children, func(pid int) bool { _, parent := stat(pid); return parent == 0 })
}

// await returns when done is true of all processes.
func await(pids []int, done func(pid int) bool) error {
	limit := time.After(grace)
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for _, pid := range pids {
		for !done(pid) {
			select {
			case <-poll.C:
			case <-limit:
				return fmt.Errorf("process %d still runs", pid)
			}
		}
	}
	return nil
}

// Freeze stops the server where it is, the postmaster and all its children;
// connections stay open. Linux only.
func (c *Cluster) Freeze() error {
	if err := c.process.Freeze(); err != nil {
		return err
	}
	children, err := c.signal(syscall.SIGSTOP)
	if err != nil {
		return err
	}
	return await(children, func(pid int) bool { state, parent := stat(pid); return state == "T" || parent == 0 })
}

// Thaw lets a frozen server go on.
func (c *Cluster) Thaw() error {
	if _, err := c.signal(syscall.SIGCONT); err != nil {
		return err
	}
	return c.process.Thaw()
}

// signal sends sig to the children of the postmaster, which is frozen, and
// returns them.
func (c *Cluster) signal(sig syscall.Signal) ([]int, error) {
	children, err := childrenOf(c.process.Pid)
	if err != nil {
		return nil, fmt.Errorf("look for children of process %d: %w", c.process.Pid, err)
	}
	for _, pid := range children {
		// One that has just ended by itself is as dead as we want it.
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("send %v to process %d: %w", sig, pid, err)
		}
	}
	return children, nil
}

// childrenOf returns the processes whose parent is pid.
func childrenOf(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if _, parent := stat(child); parent == pid {
			children = append(children, child)
		}
	}
	return children, nil
}

// stat is the state of a process, as proc(5) has it, and its parent; 0 if it has
// ended.
func stat(pid int) (state string, parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	// pid (comm) state ppid …, and comm may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 2 || fields[0] == "Z" {
		return "", 0
	}
	if parent, err = strconv.Atoi(fields[1]); err != nil {
		return "", 0
	}
	return fields[0], parent
}
