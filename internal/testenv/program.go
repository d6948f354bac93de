package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Program returns the first of paths that is there: a program, or what one
// needs, that `make servers` installs. A relative path is one below .bin, and a
// name without a folder is looked for in PATH.
func Program(tb testing.TB, paths ...string) string {
	tb.Helper()
	bin, err := binFolder()
	need(tb, err)
	for _, path := range paths {
		if !strings.Contains(path, "/") {
			if found, err := exec.LookPath(path); err == nil {
				return found
			}
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(bin, path)
		}
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	need(tb, fmt.Errorf("%s: %w", strings.Join(paths, " or "), errMissing))
	return ""
}
