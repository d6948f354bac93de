package wire

import "golang.org/x/sys/unix"

// owes reports whether the client has not taken all that was sent to it.
func (c *Conn) owes() bool {
	owes := true
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { // a connection that is closed owes what it did
			left, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
			owes = err != nil || left > 0
		})
	}
	return owes
}
