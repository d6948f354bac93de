//go:build !linux

package poll

import (
	"net"
)

// Loop takes no connections here.
type Loop struct{}

// Conn is none here.
type Conn struct{ net.Conn }

// Adopt is false: no connection has changed.
func (l *Loop) Adopt(net.Conn) (conn *Conn, ok bool, err error) { return nil, false, nil }

// Idle returns at once.
func (c *Conn) Idle(func() bool) error { return nil }

// Drained is false.
func (c *Conn) Drained() bool { return false }

// TryRead reads nothing.
func (c *Conn) TryRead([]byte) (int, error) { return 0, nil }

// TryWrite writes nothing.
func (c *Conn) TryWrite([]byte) (int, error) { return 0, nil }

// OnHangUp does nothing.
func (c *Conn) OnHangUp(func()) {}
