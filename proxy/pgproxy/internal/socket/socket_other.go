//go:build !linux

package socket

import (
	"net"
	"time"
)

// setUserTimeout does nothing: there is no portable way.
func setUserTimeout(net.Conn, time.Duration) {}

// HungUp is false: there is no portable way.
func HungUp(net.Conn) bool { return false }
