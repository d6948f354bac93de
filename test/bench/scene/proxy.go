// Package scene starts what the benchmarks measure: servers, and proxies in front
// of them, each a process of its own.
package scene

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/machine"
)

// patience is for a program to start, or to end.
const patience = time.Minute

// Proxy is a running fenceproxy.
type Proxy struct {
	Addrs []string // of its listeners, host:port, in their order
	PID   int
}

// Serve starts fenceproxy with a configuration of so many listeners.
func Serve(b *bed.Bed, config string, listeners int) Proxy {
	dir := b.TempDir()
	path := filepath.Join(dir, "fenceproxy.yaml")
	b.Must(os.WriteFile(path, []byte(config), 0o600))
	return start(b, exec.Command(testenv.Program(b, "./fenceproxy"), "serve", "--config", path), listeners)
}

// start starts a program that logs the address of each of its listeners.
func start(b *bed.Bed, cmd *exec.Cmd, listeners int) Proxy {
	log := filepath.Join(b.TempDir(), "log")
	process, err := localserver.StartLogged(cmd, log, syscall.SIGKILL)
	b.Must(err)
	b.Cleanup(func() { process.End(patience, syscall.SIGKILL) })
	p := Proxy{PID: process.Pid}
	b.Must(process.AwaitReady(b.Context(), patience, func(context.Context) error {
		text, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		p.Addrs = nil
		for line := range bytes.Lines(text) {
			if _, rest, ok := strings.Cut(string(line), " address="); ok {
				p.Addrs = append(p.Addrs, strings.Fields(rest)[0])
			}
		}
		if len(p.Addrs) < listeners {
			return fmt.Errorf("%s: %d of %d listeners", filepath.Base(cmd.Path), len(p.Addrs), listeners)
		}
		return nil
	}))
	return p
}

// pidAt is the process that listens at host:port; 0 if it is not on this machine,
// and its CPU time is then not known.
func pidAt(b *bed.Bed, addr string) int {
	_, port, err := net.SplitHostPort(addr)
	b.Must(err)
	number, err := strconv.ParseUint(port, 10, 16)
	b.Must(err)
	pid, err := machine.Listener(number)
	if os.IsNotExist(err) {
		return 0
	}
	b.Must(err)
	return pid
}
