package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// binFolder is the folder .bin, where `make servers` puts programs, beside the
// go.mod above the folder that the test runs in.
var binFolder = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, ".bin"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working folder")
		}
		dir = filepath.Dir(dir)
	}
})
