package child

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// adopt makes this process the parent of its descendants' orphans.
func adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// clock reads the monotonic clock, in nanoseconds: the one that time.Time uses,
// and the same in all processes.
func clock() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail
	return now.Nano()
}

// replace makes fd another name of file.
func replace(fd int, file *os.File) error { return unix.Dup3(int(file.Fd()), fd, 0) }

// kids lists the children of this process that have not been reaped. Until they
// are, their ids are theirs.
func kids() []kid {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	var all []kid
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if parent, group := relatives(name); parent == os.Getpid() {
			all = append(all, kid{pid, group})
		}
	}
	return all
}

// relatives reads proc_pid_stat(5): what follows the name, which ends with the
// last parenthesis, is the state, the parent and the group.
func relatives(pid string) (parent, group int) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 3 {
		return 0, 0
	}
	parent, _ = strconv.Atoi(string(fields[1]))
	group, _ = strconv.Atoi(string(fields[2]))
	return parent, group
}

// awaitChild returns when there is a child to reap, or one that was stopped,
// and leaves it as it is. The error says that there are no children.
func awaitChild() error {
	for {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
