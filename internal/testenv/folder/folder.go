// Package folder makes folders for the data of servers. They go even if the
// process that made them was killed: the next one removes them. Linux only.
package folder

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv/disk"
)

const prefix = "fence-test-"

// New makes a folder that belongs to the account. Its lock file is held until
// remove is called or this process ends; Sweep removes what others left.
func New(owner *localserver.Account) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", prefix)
	if err != nil {
		return "", nil, err
	}
	lock, err := Lock(filepath.Join(dir, "lock"))
	if err == nil {
		err = owner.Own(dir)
	}
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, func() { os.RemoveAll(dir); lock.Close() }, nil
}

// Sweep removes the folders of processes that were killed.
func Sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, dir := range dirs {
		path := filepath.Join(dir, "lock")
		info, err := os.Stat(path)
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue // perhaps being made, and not locked yet
		}
		if lock, err := lockFile(path, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			disk.Sweep(dir)
			os.RemoveAll(dir)
			lock.Close()
		}
	}
}

// Lock opens the file path, which it makes if need be, and locks it against
// other processes until it is closed. It waits for the lock.
func Lock(path string) (*os.File, error) { return lockFile(path, syscall.LOCK_EX) }

func lockFile(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
