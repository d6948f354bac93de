package stage

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
)

// startLimit is how long a program may take to start.
const startLimit = time.Minute

// proxy is one fenceproxy. Started again it has the same address.
type proxy struct {
	program, config, log, addr string
	process                    *localserver.Process
}

func startProxy(tb testing.TB, c Config, n int, upstream, claimWait string) *proxy {
	tb.Helper()
	port, err := localserver.FreePort()
	if err != nil {
		tb.Fatal(err)
	}
	name := filepath.Join(c.Dir, fmt.Sprintf("proxy-%d", n))
	p := &proxy{program: c.Proxy, config: name + ".yaml", log: name + ".log", addr: localserver.Loopback(port)}
	text := fmt.Sprintf("postgres: [{listen: %q, upstream: {address: %q}, claim_wait: %s, evict: true}]\n", p.addr, upstream, claimWait)
	if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	p.Restart(tb)
	tb.Cleanup(func() { p.process.End(0) })
	return p
}

// Restart starts it.
func (p *proxy) Restart(tb testing.TB) {
	tb.Helper()
	var err error
	if p.process, err = localserver.StartLogged(exec.Command(p.program, "serve", "--config", p.config), p.log, syscall.SIGKILL); err != nil {
		tb.Fatal(err)
	}
	err = p.process.AwaitReady(tb.Context(), startLimit, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.addr)
		if err == nil {
			conn.Close()
		}
		return err
	})
	if err != nil && tb.Context().Err() == nil {
		tb.Fatal(err)
	}
}

// Kill ends it as a crash does.
func (p *proxy) Kill(testing.TB) { p.process.End(0) }

// Freeze stops it where it is.
func (p *proxy) Freeze(tb testing.TB) {
	tb.Helper()
	if err := p.process.Freeze(); err != nil {
		tb.Fatal(err)
	}
}

// Thaw lets it run on.
func (p *proxy) Thaw(tb testing.TB) {
	tb.Helper()
	if err := p.process.Thaw(); err != nil {
		tb.Fatal(err)
	}
}
