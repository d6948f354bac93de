// Package shiftclock shifts the clock of one program that is not written in Go.
package shiftclock

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed src/shiftclock.c
var source []byte

// Clock is the clock of one program.
type Clock struct{ file, library string }

// New makes a clock in the folder dir. It needs a C compiler, cc.
func New(dir string) (*Clock, error) {
	c := &Clock{file: filepath.Join(dir, "shift"), library: filepath.Join(dir, "shiftclock.so")}
	text := filepath.Join(dir, "shiftclock.c")
	if err := os.WriteFile(text, source, 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command("cc", "-O2", "-Wall", "-fPIC", "-shared", "-o", c.library, text).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile shiftclock: %w: %s", err, out)
	}
	return c, os.WriteFile(c.file, make([]byte, 8), 0o600)
}

// Env is what the program has to have in its environment, beside its own.
func (c *Clock) Env() []string {
	return []string{"LD_PRELOAD=" + c.library, "SHIFTCLOCK=" + c.file}
}

// Shift makes the program take the time for d later than it is, or earlier.
func (c *Clock) Shift(d time.Duration) error {
	file, err := os.OpenFile(c.file, os.O_WRONLY, 0) // not made anew: the program has it mapped
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(binary.NativeEndian.AppendUint64(nil, uint64(d)))
	return err
}
