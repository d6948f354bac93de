package poll

import (
	"syscall"
	"unsafe"
)

// raw is recv or send. With MSG_DONTWAIT they do not block, so that the scheduler
// need not hear of them: that is what RawSyscall is for.
func raw(call uintptr, fd int, b []byte, flags uintptr) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0) //nolint:gosec // as package syscall does
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
