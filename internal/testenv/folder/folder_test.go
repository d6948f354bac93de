package folder_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/folder"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// A folder that a killed process left is removed; one in use is not.
func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	used, remove, err := folder.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	left, abandon, err := folder.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	abandon()
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	for _, dir := range []string{used, left} {
		lock := filepath.Join(dir, "lock")
		f, err := os.OpenFile(lock, os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := os.Chtimes(lock, old, old); err != nil {
			t.Fatal(err)
		}
	}
	folder.Sweep()
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
	if _, err := os.Stat(used); err != nil {
		t.Errorf("in use: %v", err)
	}
	remove()
	if _, err := os.Stat(used); !os.IsNotExist(err) {
		t.Errorf("not in use any more: %v", err)
	}
}
