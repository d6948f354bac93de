// Package machine is what the benchmarks ask of the machine: what it is, and what
// processes take of it. Linux only.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/test/bench/results"
)

// clockTick is the unit of the times in /proc/*/stat, on every Linux of Go's.
const clockTick = 10 * time.Millisecond

// Describe tells what the machine is.
func Describe() (results.Machine, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return results.Machine{}, err
	}
	cpus, err := fs.CPUInfo()
	if err != nil {
		return results.Machine{}, err
	}
	m := results.Machine{CPUs: runtime.NumCPU(), CPU: cpus[0].ModelName, System: system(), Go: runtime.Version(), LoadBefore: Load()}
	memory, err := fs.Meminfo()
	if err == nil && memory.MemTotal != nil {
		m.MemoryGiB = int(*memory.MemTotal+1<<19) >> 20 // of KiB
	}
	return m, nil
}

// Load is how many wanted to run in the last minute.
func Load() float64 {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	load, err := fs.LoadAvg()
	if err != nil {
		return 0
	}
	return load.Load1
}

func system() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return runtime.GOOS
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

// CPU is the time that a process, and all that it has started, have run: those
// that it has waited for too.
func CPU(pid int) time.Duration {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	processes, err := fs.AllProcs()
	if err != nil {
		return 0
	}
	stats := make(map[int]procfs.ProcStat, len(processes))
	for _, p := range processes {
		if stat, err := p.Stat(); err == nil { // it may have ended meanwhile
			stats[p.PID] = stat
		}
	}
	var ticks int
	for _, stat := range stats {
		if descends(stats, stat, pid) {
			ticks += int(stat.UTime+stat.STime) + stat.CUTime + stat.CSTime
		}
	}
	return time.Duration(ticks) * clockTick
}

func descends(stats map[int]procfs.ProcStat, stat procfs.ProcStat, pid int) bool {
	for stat.PID != 0 && stat.PID != pid {
		stat = stats[stat.PPID]
	}
	return stat.PID == pid
}

// Self is the time that this process has run, without what it has started.
func Self() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Memory is the resident memory of one process in MiB, now and at most.
func Memory(pid int) (now, peak float64, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, 0, err
	}
	status, err := p.NewStatus()
	if err != nil {
		return 0, 0, err
	}
	return float64(status.VmRSS) / (1 << 20), float64(status.VmHWM) / (1 << 20), nil
}

// Listener is the process that listens on a TCP port of the loopback: the one
// that started the others, if several do.
func Listener(port uint64) (int, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	wanted, err := sockets(port)
	if err != nil {
		return 0, err
	}
	processes, err := fs.AllProcs()
	if err != nil {
		return 0, err
	}
	slices.SortFunc(processes, func(a, b procfs.Proc) int { return a.PID - b.PID })
	for _, p := range processes {
		targets, err := p.FileDescriptorTargets()
		if err != nil {
			continue // it is gone
		}
		if slices.ContainsFunc(targets, func(target string) bool { return wanted[target] }) {
			return p.PID, nil
		}
	}
	return 0, fmt.Errorf("port %d: nobody of this machine listens: %w", port, os.ErrNotExist)
}

// sockets are those that listen on a port, as /proc/*/fd names them. The columns
// of /proc/net/tcp are told in proc_net_tcp.rst of the kernel's documentation.
func sockets(port uint64) (map[string]bool, error) {
	const local, state, inode, listening = 1, 3, 9, "0A"
	found := map[string]bool{}
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // without IPv6
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > inode && f[state] == listening && strings.HasSuffix(f[local], fmt.Sprintf(":%04X", port)) {
				found["socket:["+f[inode]+"]"] = true
			}
		}
	}
	return found, nil
}
