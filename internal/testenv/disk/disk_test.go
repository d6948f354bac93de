package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/fenceproxy/fenceproxy/internal/testenv/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, size int64) *disk.Disk {
	t.Helper()
	d, err := disk.New(t.TempDir(), size)
	if errors.Is(err, disk.ErrRefused) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestFullAndFree(t *testing.T) {
	t.Parallel()
	d := open(t, 4<<20)
	defer func() {
		if err := d.Unmount(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(d.Path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", d.Path, err)
		}
	}()
	write := func(name string, size int) error {
		return os.WriteFile(filepath.Join(d.Path, name), make([]byte, size), 0o600)
	}
	if err := write("before", 1<<20); err != nil {
		t.Fatal(err)
	}
	for range 2 { // full twice is full
		if err := d.Fill(64 << 10); err != nil {
			t.Fatal(err)
		}
	}
	if err := write("little", 32<<10); err != nil {
		t.Errorf("what fits does not: %v", err)
	}
	if err := write("much", 1<<20); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	if err := d.Free(); err != nil {
		t.Fatal(err)
	}
	if err := write("after", 2<<20); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	d := open(t, 1<<20)
	disk.Sweep(filepath.Dir(d.Path))
	disk.Sweep(filepath.Dir(d.Path)) // nothing left
	if _, err := os.Stat(d.Path); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", d.Path, err)
	}
}
