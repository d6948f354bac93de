package stage

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
)

// startLimit is how long a program may take to start.
const startLimit = time.Minute

// proxy is one fenceproxy. Started again it has the same address.
type proxy struct {
	program, config, log, addr string
	process                    *localserver.Process
}

// postgresProxy is a proxy in front of Postgres; more is what else is configured.
func (s *Stage) postgresProxy(n int, upstream, claimWait, more string) *proxy {
	s.tb.Helper()
	return startProxy(s.tb, s.config, fmt.Sprintf("proxy-%d", n),
		fmt.Sprintf("postgres: [{listen: LISTEN, upstream: {address: %q}, claim_wait: %s, evict: true%s}]\n", upstream, claimWait, more))
}

// s3Proxy is a proxy in front of a bucket, and the bucket as its clients see it; more
// is what else is configured.
func (s *Stage) s3Proxy(n int, b ways.Bucket, more string) (*proxy, ways.Bucket) {
	s.tb.Helper()
	client := ways.Bucket{Region: b.Region, AccessKey: "app", SecretKey: "secret-of-the-app", Bucket: b.Bucket}
	p := startProxy(s.tb, s.config, fmt.Sprintf("s3proxy-%d", n),
		fmt.Sprintf("s3: [{listen: LISTEN, upstream: {endpoint: %q, region: %q, access_key: %q, secret_key: %q}, clients: [{access_key: %q, secret_key: %q, buckets: [%q]}]%s}]\n",
			"http://"+b.Endpoint, b.Region, b.AccessKey, b.SecretKey, client.AccessKey, client.SecretKey, b.Bucket, more))
	client.Endpoint = p.addr
	return p, client
}

// startProxy starts one with a listener; text is the listener's configuration, in
// which LISTEN stands for its address.
func startProxy(tb testing.TB, c Config, name, text string) *proxy {
	tb.Helper()
	port, err := localserver.FreePort()
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(c.Dir, name)
	p := &proxy{program: c.Proxy, config: path + ".yaml", log: path + ".log", addr: localserver.Loopback(port)}
	if err := os.WriteFile(p.config, []byte(strings.ReplaceAll(text, "LISTEN", p.addr)), 0o600); err != nil {
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
