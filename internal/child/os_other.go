//go:build !linux

package child

import (
	"os"
	"syscall"
	"time"
)

func dieWithParent(*syscall.SysProcAttr) {}

func adopt() error { return nil }

// clock is the wall clock: there is no portable way to read a monotonic one
// that other processes share.
func clock() int64 { return time.Now().UnixNano() }

func replace(int, *os.File) error { return nil }

// kids knows none: there is no portable way to list them, so that the process
// group is all that is ended.
func kids() []kid { return nil }

// relatives knows nobody's.
func relatives(string) (parent, group int) { return 0, 0 }

// awaitChild leaves it to the caller to look again.
func awaitChild() error {
	<-time.After(again)
	return nil
}
