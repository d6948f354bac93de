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
	if err := c.process.Freeze(); err != nil {
		return err
	}
	children, err := childrenOf(c.process.Pid)
	if err != nil {
		return fmt.Errorf("look for children of process %d: %w", c.process.Pid, err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range children {
			// One that has just ended by itself is as dead as we want it.
			if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("send %v to process %d: %w", sig, pid, err)
			}
		}
	}
	c.process.End(0)
	limit := time.After(grace)
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for _, pid := range children {
		for parentOf(pid) != 0 {
			select {
			case <-poll.C:
			case <-limit:
				return fmt.Errorf("child %d still runs", pid)
			}
		}
	}
	return nil
}

// childrenOf returns the processes whose parent is pid.
func childrenOf(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, e := range entries {
		if child, err := strconv.Atoi(e.Name()); err == nil && parentOf(child) == pid {
			children = append(children, child)
		}
	}
	return children, nil
}

// parentOf is the parent of a process, 0 if that has ended.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// proc(5): pid (comm) state ppid …, and comm may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 || fields[0] == "Z" {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}
