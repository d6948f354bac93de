package child

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Find finds a program as a shell does: name itself if it has a slash, else the
// first of that name in the folders of path (the value of PATH) that may be
// run. The error is syscall.ENOENT if there is none, EACCES if one may not be
// run, EISDIR if name is a folder.
func Find(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		if errno := runnable(name); errno != 0 {
			return "", errno
		}
		return name, nil
	}
	found := syscall.ENOENT
	if name == "" {
		return "", found
	}
	for folder := range strings.SplitSeq(path, ":") {
		if folder == "" {
			folder = "."
		}
		file := filepath.Join(folder, name)
		if !strings.Contains(file, "/") {
			file = "./" + file
		}
		errno := runnable(file)
		if errno == 0 {
			return file, nil
		}
		if errno == syscall.EACCES {
			found = errno
		}
	}
	return "", found
}

func runnable(file string) syscall.Errno {
	info, err := os.Stat(file)
	switch {
	case err == nil && info.IsDir():
		return syscall.EISDIR
	case err == nil && unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS) == nil:
		return 0
	case err == nil || os.IsPermission(err):
		return syscall.EACCES
	}
	return syscall.ENOENT
}
