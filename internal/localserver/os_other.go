//go:build !linux

package localserver

import "syscall"

func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

func ignorePermissions(*syscall.SysProcAttr) {}

// awaitStop trusts the signal: there is no portable way to wait for a stop
// without waiting for the end as well.
func awaitStop(int) error { return nil }
