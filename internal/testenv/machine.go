package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// moduleRoot is the folder of this module's go.mod, above the folder that the
// test runs in.
var moduleRoot = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working folder")
		}
		dir = filepath.Dir(dir)
	}
})

// binPath is a path below .bin, where `make servers` puts programs.
func binPath(elem ...string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(append([]string{root, ".bin"}, elem...)...), nil
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// freePort returns a loopback port that nobody listens on. It is taken from
// below the range that the kernel hands out by itself, so that it stays free,
// most likely, until the server listens, and while a killed server is away.
// Servers that find it taken are started again on another one.
func freePort() (int, error) {
	const low, high = 18000, 32000
	for range 200 {
		port := low + rand.IntN(high-low)
		ln, err := net.Listen("tcp", loopback(port))
		if err == nil {
			return port, ln.Close()
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d", low, high)
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// startAttempts is how often a server is started that finds its port taken.
const startAttempts = 5

func portTaken(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "address already in use") || strings.Contains(text, "port is already allocated")
}

const scratchPrefix = "fence-test-"

// scratch makes a folder for a server's data. Its lock file is held until
// remove is called or this process ends; sweep removes what others left.
func scratch(owner *account) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", scratchPrefix)
	if err != nil {
		return "", nil, err
	}
	lock, err := lockFile(filepath.Join(dir, "lock"), syscall.LOCK_EX)
	if err == nil {
		err = owner.own(dir)
	}
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, func() { os.RemoveAll(dir); lock.Close() }, nil
}

// sweep removes the folders of test processes that were killed.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*"))
	for _, dir := range dirs {
		path := filepath.Join(dir, "lock")
		info, err := os.Stat(path)
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue // perhaps being made, and not locked yet
		}
		if lock, err := lockFile(path, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			os.RemoveAll(dir)
			lock.Close()
		}
	}
}

// lockFile opens path and locks it against other processes until it is closed.
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

// copyTree copies a folder and what is in it, for the owner. Nobody else may
// do with the copy more than with the original.
func copyTree(from, to string, owner *account) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			err = os.Mkdir(target, info.Mode().Perm())
		case d.Type() == os.ModeSymlink:
			var link string
			if link, err = os.Readlink(path); err == nil {
				return os.Symlink(link, target)
			}
		default:
			var content []byte
			if content, err = os.ReadFile(path); err == nil {
				err = os.WriteFile(target, content, info.Mode().Perm())
			}
		}
		if err != nil {
			return err
		}
		return owner.own(target)
	})
}
