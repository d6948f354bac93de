//go:build !linux

package socket

import (
	"net"
	"time"
)

// setUserTimeout does nothing: there is no portable way.
func setUserTimeout(net.Conn, time.Duration) {}

// peerProcess is 0: there is no portable way.
func peerProcess(*net.UnixConn) int { return 0 }

// HungUp is false: there is no portable way.
func HungUp(net.Conn) bool { return false }
