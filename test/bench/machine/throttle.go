package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Throttle lets a process have so much of one CPU and no more, until the function
// that it returns is called. It needs root, and a hierarchy of cgroups for the CPU
// at its usual place.
func Throttle(pid int, share float64) (release func(), err error) {
	const period = 20_000                              // µs; the kernel takes no quota below 1,000
	root, limits := "/sys/fs/cgroup/cpu", [][2]string{ // cgroups of version 1
		{"cpu.cfs_period_us", strconv.Itoa(period)}, {"cpu.cfs_quota_us", strconv.Itoa(int(share * period))},
	}
	if _, err := os.Stat(root); err != nil {
		root, limits = "/sys/fs/cgroup", [][2]string{{"cpu.max", fmt.Sprint(int(share*period), " ", period)}}
	}
	dir := filepath.Join(root, fmt.Sprint("fenceproxy-bench-", pid))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("throttle: %w", err)
	}
	procs := []byte(strconv.Itoa(pid))
	release = func() {
		_ = os.WriteFile(filepath.Join(root, "cgroup.procs"), procs, 0) // none are left in a folder that goes
		_ = os.Remove(dir)
	}
	for _, limit := range limits {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, limit[0]), []byte(limit[1]), 0))
	}
	if err = errors.Join(err, os.WriteFile(filepath.Join(dir, "cgroup.procs"), procs, 0)); err != nil {
		release()
		return nil, fmt.Errorf("throttle: %w", err)
	}
	return release, nil
}
