package scene

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"

	"github.com/fenceproxy/fenceproxy/test/bench/bed"
)

// Relay is a process that passes bytes on and looks at none, nor at where a request
// ends: what no proxy can do without. It is this program, with RelayFlag.
func (s *Store) Relay(b *bed.Bed) Gate {
	program, err := os.Executable()
	b.Must(err)
	p := start(b, exec.Command(program, "-"+RelayFlag, s.Endpoint()), 1)
	return s.gate(b, p.Addrs[0], s.AccessKey, s.SecretKey, "", p.PID)
}

// RelayFlag makes this program a relay to the address that is its value.
const RelayFlag = "relay"

// RunRelay passes connections on to addr until ctx ends. On Linux the kernel moves the
// bytes (splice).
func RunRelay(ctx context.Context, addr string) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	fmt.Println("relay address=" + ln.Addr().String())
	for {
		client, err := ln.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		go relay(client, addr)
	}
}

func relay(client net.Conn, addr string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	_, _ = io.Copy(client, server)
}
