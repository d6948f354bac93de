//go:build !linux

package http1

import "net"

// gone cannot be told here: a client that has gone is missed when it is written to.
func gone(net.Conn) bool { return false }

// owes cannot be told here.
func owes(net.Conn) bool { return true }
