//go:build !linux

package wire

// owes is true: there is no portable way to know.
func (c *Conn) owes() bool { return true }
