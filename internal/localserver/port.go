package localserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
)

// StartAttempts is how often a server is started that finds its port taken by
// somebody who was faster.
const StartAttempts = 5

// FreePort returns a loopback port that nobody listens on. It is taken from
// below the range that the kernel hands out by itself, so that it stays free,
// most likely, until a server listens, and while a killed server is away.
func FreePort() (int, error) {
	const low, high = 18000, 32000
	for range 200 {
		port := low + rand.IntN(high-low) //nolint:gosec // a guess at what is free, no secret
		ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", Loopback(port))
		if err == nil {
			return port, ln.Close()
		}
	}
	return 0, fmt.Errorf("find a free port between %d and %d: all that were tried are taken", low, high)
}

// Loopback is the host:port of a loopback port.
func Loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// PortTaken says whether err, of a server that did not start, tells that its
// port was taken.
func PortTaken(err error) bool {
	if err == nil {
		return false
	}
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "address already in use") ||
		strings.Contains(text, "port is already allocated") // Docker
}

// OnFreePorts calls start with n free ports, and, up to StartAttempts times,
// with others while its error is a PortTaken one.
func OnFreePorts(n int, start func(ports []int) error) error {
	for attempt := 1; ; attempt++ {
		ports := make([]int, n)
		for i := range ports {
			var err error
			if ports[i], err = FreePort(); err != nil {
				return err
			}
		}
		if err := start(ports); !PortTaken(err) || attempt == StartAttempts {
			return err
		}
	}
}
